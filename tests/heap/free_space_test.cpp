#include "argosy/heap/free_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace argosy::heap {
namespace {

TEST(FreeSpace, WhatWasUsedIsUsedAgain) {
  FreeSpace space(1000);
  const auto first = space.take(100);
  const auto second = space.take(200);
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(second, 100u);
  space.give_back(*first);
  EXPECT_EQ(space.take(60), 0u) << "where it fits best";
  EXPECT_EQ(space.take(50), 300u) << "the rest of 40 is too short";
  EXPECT_EQ(space.take(40), 60u);
}

TEST(FreeSpace, NeighboursJoin) {
  FreeSpace space(300);
  const auto a = space.take(100);
  const auto b = space.take(100);
  const auto c = space.take(100);
  EXPECT_EQ(space.take(1), std::nullopt) << "full";
  space.give_back(*a);
  space.give_back(*c);
  EXPECT_EQ(space.take(101), std::nullopt);
  space.give_back(*b);
  EXPECT_EQ(space.take(300), 0u);
}

TEST(FreeSpace, CountsPagesThatNobodyNeeds) {
  FreeSpace space(1000);
  const auto a = space.take(300);
  const auto b = space.take(100);
  EXPECT_EQ(space.idle(), 0u);
  space.give_back(*a);
  EXPECT_EQ(space.idle(), 300u);
  EXPECT_EQ(space.used(), 100u);
  EXPECT_EQ(space.most_used(), 400u);
  EXPECT_TRUE(space.drop_pages(300).empty());
  const auto dropped = space.drop_pages(299);
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].begin, 0u);
  EXPECT_EQ(dropped[0].bytes, 300u);
  EXPECT_EQ(space.idle(), 0u);
  EXPECT_TRUE(space.drop_pages(0).empty()) << "there are no more";
  space.give_back(*b);
  EXPECT_EQ(space.idle(), 100u);
}

TEST(FreeSpace, PartsNeverOverlap) {
  FreeSpace space(100'000);
  std::map<std::size_t, std::size_t> taken; // begin, end
  std::mt19937 random(7);
  std::size_t used = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0 || taken.empty()) {
      const std::size_t bytes = 1 + random() % 3000;
      const auto begin = space.take(bytes);
      if (!begin) {
        continue;
      }
      const auto next = taken.lower_bound(*begin);
      ASSERT_TRUE(next == taken.end() || *begin + bytes <= next->first);
      ASSERT_TRUE(next == taken.begin() || std::prev(next)->second <= *begin);
      ASSERT_LE(*begin + bytes, 100'000u);
      taken[*begin] = *begin + bytes;
      used += bytes;
    } else {
      const auto one =
          std::next(taken.begin(), static_cast<long>(random() % taken.size()));
      used -= one->second - one->first;
      space.give_back(one->first);
      taken.erase(one);
    }
    ASSERT_EQ(space.used(), used);
  }
  for (const auto& [begin, end] : taken) {
    space.give_back(begin);
  }
  EXPECT_EQ(space.take(100'000), 0u) << "all in one piece again";
}

} // namespace
} // namespace argosy::heap
