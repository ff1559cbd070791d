#include "argosy/ps/table/key_index.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <unordered_map>

#include "argosy/common/error.h"

namespace argosy::ps {
namespace {

// Keys of rows by position, as slabs hold them.
struct Rows {
  KeyIndex index;
  std::vector<std::uint64_t> keys;

  std::uint32_t find(std::uint64_t key) const {
    return index.find(KeyIndex::hash(key), [&](std::uint32_t position) {
      return keys[position] == key;
    });
  }
  void insert(std::uint64_t key) {
    keys.push_back(key);
    index.insert(
        KeyIndex::hash(key), static_cast<std::uint32_t>(keys.size() - 1));
  }
};

TEST(KeyIndex, AgreesWithAMapWhileItGrowsAndLosesKeys) {
  Rows rows;
  std::unordered_map<std::uint64_t, std::uint32_t> map;
  std::mt19937_64 random(1);
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t key = random() % 150'000 * 1000 + 7;
    const auto found = map.find(key);
    ASSERT_EQ(
        rows.find(key), found == map.end() ? KeyIndex::kNone : found->second);
    if (found == map.end()) {
      rows.insert(key);
      map[key] = static_cast<std::uint32_t>(rows.keys.size() - 1);
    } else if (random() % 4 == 0) {
      rows.index.erase(KeyIndex::hash(key), found->second);
      map.erase(found);
    } else if (random() % 4 == 0) {
      rows.keys.push_back(key);
      const auto to = static_cast<std::uint32_t>(rows.keys.size() - 1);
      rows.index.replace(KeyIndex::hash(key), found->second, to);
      found->second = to;
    }
  }
  EXPECT_EQ(rows.index.size(), map.size());
  for (const auto& [key, position] : map) {
    ASSERT_EQ(rows.find(key), position);
  }
}

TEST(KeyIndex, NeedsAtMostSixteenBytesAKey) {
  Rows rows;
  double most = 0;
  for (std::uint64_t key = 0; key < 1'000'000; ++key) {
    rows.insert(key * 0x9e3779b97f4a7c15u);
    if (key > 200'000 && key % 1000 == 0) {
      most = std::max(
          most,
          static_cast<double>(rows.index.memory_bytes()) /
              static_cast<double>(key + 1));
    }
  }
  // Twice 2 MB of the old and the new slots are neither full nor returned.
  EXPECT_LT(most, 16 + 4e6 / 200'000);
  EXPECT_LT(rows.index.memory_bytes(), 16u * 1'000'000);
}

TEST(KeyIndex, SoakGrowsWithoutAPause) {
  Rows rows;
  rows.keys.reserve(1'000'000);
  using Clock = std::chrono::steady_clock;
  // The processor's time of this thread: others may run meanwhile.
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) +
        std::chrono::nanoseconds(time.tv_nsec);
  };
  Clock::duration longest{};
  for (std::uint64_t key = 0; key < 1'000'000;) {
    const auto began = now();
    for (int i = 0; i < 10; ++i) {
      rows.insert(key++);
    }
    longest = std::max<Clock::duration>(longest, now() - began);
  }
  EXPECT_LT(longest, std::chrono::milliseconds(10));
}

TEST(KeyIndex, RefusesKeysThatWereChosenToCollide) {
  KeyIndex index;
  const auto fill = [&] {
    for (std::uint32_t i = 0; i < 10'000; ++i) {
      index.insert(0xffffffff, i);
    }
  };
  EXPECT_THROW(fill(), InvalidArgument);
}

} // namespace
} // namespace argosy::ps
