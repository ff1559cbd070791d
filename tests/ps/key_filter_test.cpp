#include "argosy/ps/table/key_filter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ps/support.h"

namespace argosy::ps {
namespace {

using testing::Keys;
using testing::range;

std::uint64_t spread(std::uint64_t i) {
  return i * 0x9e3779b97f4a7c15u;
}

TEST(KeyFilter, IsEmptyAtFirst) {
  const KeyFilter filter;
  EXPECT_FALSE(filter.may_contain(0));
  Keys keys = range(0, 100);
  filter.keep_contained(keys);
  EXPECT_TRUE(keys.empty());
  EXPECT_EQ(filter.memory_bytes(), 0u);
}

// Three layers: keys in a row, and keys far from each other.
TEST(KeyFilter, ContainsWhatWasAddedAndLittleElse) {
  constexpr std::uint64_t kCount = 4'000'000;
  for (const auto key_of : {+[](std::uint64_t i) { return i; }, &spread}) {
    KeyFilter filter;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      filter.add(key_of(i));
    }
    std::uint64_t lost = 0;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      lost += filter.may_contain(key_of(i)) ? 0 : 1;
      wrong += filter.may_contain(key_of(kCount + i)) ? 1 : 0;
    }
    EXPECT_EQ(lost, 0u);
    EXPECT_LT(wrong, kCount / 25);
    EXPECT_LT(filter.memory_bytes(), kCount * 20 / 8);
  }
}

TEST(KeyFilter, KeepsContainedKeysInOrder) {
  KeyFilter filter;
  for (std::uint64_t key = 0; key < 1000; key += 2) {
    filter.add(key);
  }
  Keys keys = range(0, 1000);
  filter.keep_contained(keys);
  EXPECT_GE(keys.size(), 500u);
  EXPECT_LT(keys.size(), 510u);
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
}

TEST(KeyFilter, CountsAKeyOnce) {
  KeyFilter filter;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t key = 0; key < 1'000'000; ++key) {
      filter.add(key);
    }
  }
  EXPECT_LT(filter.memory_bytes(), 2u << 20); // one layer
}

} // namespace
} // namespace argosy::ps
