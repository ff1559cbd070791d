// Which gradients are reduced together.

#include "argosy/data_parallel/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "argosy/common/error.h"
#include "argosy/training/gradient_schedule.h"

namespace argosy::data_parallel {
namespace {

using training::expected_order;

std::vector<ParameterInfo> of_counts(const std::vector<std::int64_t>& counts) {
  std::vector<ParameterInfo> parameters;
  for (const std::int64_t count : counts) {
    parameters.push_back({.name = "p", .count = count});
  }
  return parameters;
}

using Indices = std::vector<std::vector<std::size_t>>;

Indices indices_of(const BucketPlan& plan) {
  Indices result;
  for (const Bucket& bucket : plan.buckets) {
    result.emplace_back();
    for (const BucketEntry& entry : bucket.entries) {
      result.back().push_back(entry.parameter);
    }
  }
  return result;
}

TEST(BucketPlan, FillsUpToTheSizeAndKeepsTheLastSmall) {
  const auto parameters = of_counts({10, 1000, 1000, 1000, 1000});
  const BucketPlan narrow = plan_buckets(
      parameters, expected_order(5), {.bytes = 7999, .last_bytes = 100});
  EXPECT_EQ(indices_of(narrow), (Indices{{4}, {3}, {2}, {1}, {0}}));
  const BucketPlan wide = plan_buckets(
      parameters, expected_order(5), {.bytes = 8000, .last_bytes = 100});
  EXPECT_EQ(indices_of(wide), (Indices{{4, 3}, {2, 1}, {0}}));
}

TEST(BucketPlan, EntriesStartOnCacheLinesAndDoNotOverlap) {
  const BucketPlan plan = plan_buckets(
      of_counts({3, 17, 16}), {0, 1, 2}, {.bytes = 1 << 20, .last_bytes = 0});
  ASSERT_EQ(plan.buckets.size(), 2u);
  EXPECT_EQ(
      plan.buckets[0].entries,
      (std::vector<BucketEntry>{{0, 0, 3}, {1, 16, 17}}));
  EXPECT_EQ(plan.buckets[0].count, 33);
}

TEST(BucketPlan, TypesDoNotMixAndSparseOnesAreAlone) {
  auto parameters = of_counts({4, 4, 4, 4, 4});
  parameters[1].type = parameters[3].type = "float64";
  parameters[1].element = parameters[3].element = 8;
  parameters[2].sparse = true;
  const BucketPlan plan = plan_buckets(
      parameters, {0, 1, 2, 3, 4}, {.bytes = 1 << 20, .last_bytes = 1 << 20});
  EXPECT_EQ(indices_of(plan), (Indices{{0}, {1, 3}, {2}, {4}}));
  EXPECT_TRUE(plan.buckets[2].sparse);
}

TEST(BucketPlan, ByIndexAloneAndAuto) {
  const auto parameters = of_counts({8, 8, 8, 8});
  EXPECT_EQ(
      indices_of(plan_buckets(
          parameters,
          expected_order(4),
          {.mode = Fusion::Mode::Index, .starts = {1, 3}})),
      (Indices{{3}, {2, 1}, {0}}));
  EXPECT_EQ(
      indices_of(plan_buckets(
          parameters, expected_order(4), {.mode = Fusion::Mode::None})),
      (Indices{{3}, {2}, {1}, {0}}));
  const auto large = of_counts(std::vector<std::int64_t>(32, 1 << 18));
  const BucketPlan plan =
      plan_buckets(large, expected_order(32), {.mode = Fusion::Mode::Auto});
  EXPECT_GE(plan.buckets.size(), 7u);
  EXPECT_LE(plan.buckets.size(), 12u);
  EXPECT_LE(plan.buckets.back().bytes(), plan.buckets.front().bytes());
}

TEST(BucketPlan, FusionIdsComeBeforeSizes) {
  auto parameters = of_counts({100, 100, 100, 100, 100, 100});
  parameters[0].comm_fusion = parameters[3].comm_fusion = 7;
  parameters[4].comm_fusion = parameters[5].comm_fusion = 0;
  const BucketPlan plan = plan_buckets(
      parameters, expected_order(6), {.bytes = 1 << 20, .last_bytes = 1 << 20});
  // In the order in which they are full; 0 never shares a bucket.
  EXPECT_EQ(indices_of(plan), (Indices{{5}, {4}, {2, 1}, {3, 0}}));
  parameters[3].type = "float64"; // the same id, but another buffer
  EXPECT_EQ(
      indices_of(plan_buckets(
          parameters, expected_order(6), {.mode = Fusion::Mode::None})),
      (Indices{{5}, {4}, {3}, {2}, {1}, {0}}));
}

TEST(BucketPlan, EveryParameterOnceWhateverTheSizes) {
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < 100; ++i) {
    counts.push_back(i * i % 977 + (i % 7 == 0 ? 100000 : 0));
  }
  for (const std::size_t bytes : {1u, 1000u, 100000u, 10000000u}) {
    std::vector<int> seen(counts.size(), 0);
    for (const auto& indices : indices_of(plan_buckets(
             of_counts(counts),
             expected_order(counts.size()),
             {.bytes = bytes, .last_bytes = bytes / 10}))) {
      for (const std::size_t index : indices) {
        ++seen[index];
      }
    }
    EXPECT_THAT(seen, ::testing::Each(1)) << bytes;
  }
}

TEST(BucketPlan, NoParametersAndBadOrders) {
  EXPECT_TRUE(plan_buckets({}, {}, {}).buckets.empty());
  const auto parameters = of_counts({1, 1});
  EXPECT_THROW(plan_buckets(parameters, {0, 0}, {}), InvalidArgument);
  EXPECT_THROW(plan_buckets(parameters, {0}, {}), InvalidArgument);
  EXPECT_THROW(
      plan_buckets(
          parameters, {0, 1}, {.mode = Fusion::Mode::Index, .starts = {2}}),
      InvalidArgument);
}

TEST(BucketPlan, Prints) {
  std::ostringstream text;
  text << plan_buckets(of_counts({16, 16}), {1, 0}, {.last_bytes = 0});
  EXPECT_EQ(
      text.str(),
      "bucket 0: 1 of Float, 64 bytes: 1\n"
      "bucket 1: 1 of Float, 64 bytes: 0\n");
}

} // namespace
} // namespace argosy::data_parallel
