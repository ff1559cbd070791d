#include "argosy/ps/table/key_index.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <unordered_map>

#include "argosy/common/error.h"
#include "argosy/ps/table/partition.h"

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
  // Whether find_near() tells. What it tells has at least the key's hash.
  bool check_near(std::uint64_t key, std::uint32_t expected) const {
    const std::uint32_t hash = KeyIndex::hash(key);
    const std::uint32_t near = index.find_near(hash);
    if (near == KeyIndex::kNone) {
      EXPECT_EQ(expected, KeyIndex::kNone) << key;
    } else if (near != KeyIndex::kFarther) {
      EXPECT_EQ(KeyIndex::hash(keys[near]), hash) << key;
    }
    return near != KeyIndex::kFarther;
  }
  void insert(std::uint64_t key) {
    keys.push_back(key);
    index.insert(
        KeyIndex::hash(key), static_cast<std::uint32_t>(keys.size() - 1));
  }
};

// The longest of many calls, in the processor's time of this thread: others may
// run meanwhile.
template <typename F>
std::chrono::nanoseconds longest_of(int times, const F& f) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) +
        std::chrono::nanoseconds(time.tv_nsec);
  };
  std::chrono::nanoseconds longest{};
  for (int i = 0; i < times; ++i) {
    const auto began = now();
    f();
    longest = std::max<std::chrono::nanoseconds>(longest, now() - began);
  }
  return longest;
}

TEST(KeyIndex, AgreesWithAMapWhileItGrowsAndLosesKeys) {
  Rows rows;
  std::unordered_map<std::uint64_t, std::uint32_t> map;
  std::mt19937_64 random(1);
  int farther = 0;
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t key = random() % 150'000 * 1000 + 7;
    const auto found = map.find(key);
    const std::uint32_t expected =
        found == map.end() ? KeyIndex::kNone : found->second;
    ASSERT_EQ(rows.find(key), expected);
    farther += rows.check_near(key, expected) ? 0 : 1;
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
  EXPECT_GT(farther, 0);
  EXPECT_LT(farther, 200'000 / 10); // 19 of 20 are in their own line
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
  std::uint64_t key = 0;
  const auto longest = longest_of(100'000, [&] {
    for (int i = 0; i < 10; ++i) {
      rows.insert(key++);
    }
  });
  EXPECT_LT(longest, std::chrono::milliseconds(10));
}

std::chrono::nanoseconds longest_growth() {
  Partition table(embedding_config(8, {}));
  const std::vector<float> gradients(64 * 8, 0.01f);
  std::vector<std::uint64_t> keys(64);
  std::uint64_t row = 0;
  const auto longest = longest_of(10'000'000 / 64, [&] {
    for (std::uint64_t& key : keys) {
      key = ++row * 0x9e3779b97f4a7c15u;
    }
    table.push(keys, gradients);
  });
  EXPECT_EQ(table.stat().rows, row);
  return longest;
}

TEST(Partition, SoakGrowsToTenMillionRowsWithoutAPause) {
  // A virtual machine may have to get memory from its host, which takes 5 ms
  // for a huge page: the first time is for that.
  longest_growth();
  EXPECT_LT(longest_growth(), std::chrono::milliseconds(10));
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
