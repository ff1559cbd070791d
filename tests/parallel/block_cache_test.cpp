#include "argosy/parallel/memory/block_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace argosy::parallel {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

TEST(BlockCache, GivesTheSameBlockAgain) {
  BlockCache cache;
  void* const first = cache.take(3 * kMegabyte);
  ASSERT_NE(first, nullptr);
  std::memset(first, 1, 3 * kMegabyte);
  EXPECT_TRUE(cache.give_back(first));
  EXPECT_EQ(cache.take(3 * kMegabyte), first);
  EXPECT_EQ(cache.stats().mapped, 1u);
}

TEST(BlockCache, BlocksAreAlignedAndApart) {
  BlockCache cache;
  std::vector<void*> blocks;
  for (const std::size_t size : {BlockCache::kLeast, 5 * kMegabyte + 1}) {
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(cache.take(size));
      std::memset(blocks.back(), i, size);
      EXPECT_EQ(
          reinterpret_cast<std::uintptr_t>(blocks.back()) %
              BlockCache::kAlignment,
          0u);
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(*static_cast<char*>(blocks[i]), static_cast<char>(i % 3));
  }
}

TEST(BlockCache, TakesOneThatIsALittleLarger) {
  BlockCache cache;
  void* const block = cache.take(10 * kMegabyte);
  cache.give_back(block);
  EXPECT_EQ(cache.take(9 * kMegabyte), block);
  cache.give_back(block);
  EXPECT_NE(cache.take(4 * kMegabyte), block) << "most of it would be wasted";
}

TEST(BlockCache, KnowsItsBlocks) {
  BlockCache cache;
  int other = 0;
  EXPECT_FALSE(cache.give_back(&other));
  void* const block = cache.take(kMegabyte);
  EXPECT_TRUE(cache.give_back(block));
  EXPECT_FALSE(cache.give_back(block)) << "it is not in use any more";
}

TEST(BlockCache, HoldsNoMoreThanTwiceWhatWasInUse) {
  BlockCache cache;
  // Every time another size, which no kept block serves.
  for (std::size_t size = 1; size < 2000; size += size / 2 + 1) {
    cache.give_back(cache.take(size * kMegabyte));
    const auto stats = cache.stats();
    EXPECT_EQ(stats.in_use, 0u);
    EXPECT_LE(stats.held, 2 * stats.most + BlockCache::kSpare);
  }
}

TEST(BlockCache, WhatWasNotUsedForLongGoesFirst) {
  BlockCache cache;
  void* const old = cache.take(150 * kMegabyte);
  cache.give_back(old);
  void* const young = cache.take(180 * kMegabyte);
  cache.give_back(young);
  cache.give_back(cache.take(230 * kMegabyte)); // makes them too many
  EXPECT_EQ(cache.take(180 * kMegabyte), young);
  const std::size_t before = cache.stats().mapped;
  cache.take(150 * kMegabyte);
  EXPECT_EQ(cache.stats().mapped, before + 1) << "it is gone";
}

} // namespace
} // namespace argosy::parallel
