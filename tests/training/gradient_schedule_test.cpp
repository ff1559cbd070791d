// When buckets of gradients are reduced, without tensors and ranks.

#include "argosy/training/gradient_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "argosy/common/error.h"
#include "argosy/training/bucket.h"

namespace argosy::training {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::size_t> launched_after(
    GradientSchedule& schedule, const std::vector<std::size_t>& arrivals) {
  std::vector<std::size_t> launched;
  for (const std::size_t parameter : arrivals) {
    schedule.arrive(parameter);
    while (const auto bucket = schedule.next()) {
      launched.push_back(*bucket);
    }
  }
  return launched;
}

std::string text_of(const GradientSchedule& schedule) {
  std::ostringstream text;
  text << schedule;
  return text.str();
}

TEST(GradientSchedule, LaunchesFullBucketsInOrder) {
  GradientSchedule schedule({{4, 3}, {2}, {1, 0}});
  EXPECT_THAT(launched_after(schedule, {2, 3}), IsEmpty()) << "not its turn";
  EXPECT_THAT(launched_after(schedule, {4}), ElementsAre(0, 1));
  EXPECT_EQ(
      text_of(schedule),
      "bucket 0: launched; bucket 1: launched; bucket 2: 0 of 2 gradients");
  EXPECT_THAT(schedule.missing(), ElementsAre(0, 1));
  EXPECT_THAT(launched_after(schedule, {0, 1}), ElementsAre(2));
  EXPECT_THAT(schedule.missing(), IsEmpty());
  EXPECT_THAT(schedule.arrivals(), ElementsAre(2, 3, 4, 0, 1));
}

TEST(GradientSchedule, SaysWhichBucketIsFull) {
  GradientSchedule schedule({{0, 1}, {2}});
  EXPECT_EQ(schedule.arrive(1), std::nullopt);
  EXPECT_EQ(schedule.arrive(2), 1u);
  EXPECT_TRUE(schedule.is_full(1));
  EXPECT_FALSE(schedule.is_full(0));
  EXPECT_EQ(schedule.arrive(0), 0u);
  EXPECT_TRUE(schedule.has_arrived(0));
}

TEST(GradientSchedule, BeginsAnewAtAnyTime) {
  GradientSchedule schedule({{0}, {1}});
  EXPECT_THAT(launched_after(schedule, {0}), ElementsAre(0));
  schedule.begin();
  EXPECT_FALSE(schedule.has_arrived(0));
  EXPECT_THAT(schedule.arrivals(), IsEmpty());
  EXPECT_THAT(launched_after(schedule, {1, 0}), ElementsAre(0, 1));
}

TEST(GradientSchedule, FollowsTheOrderOfArrivals) {
  const GradientSchedule first({{0, 5}, {1}, {3}}); // 2 and 4 do not train
  EXPECT_THAT(first.order(), ElementsAre(0, 1, 2));
  GradientSchedule schedule = first.ordered_by({5, 4, 3, 2, 1, 0});
  EXPECT_THAT(schedule.order(), ElementsAre(2, 1, 0));
  EXPECT_THAT(schedule.arrivals(), IsEmpty());
  EXPECT_THAT(launched_after(schedule, {0, 1, 3, 5}), ElementsAre(2, 1, 0));
  EXPECT_THROW(first.ordered_by({5, 3}), InvalidArgument);
}

TEST(GradientSchedule, RefusesParametersInTwoBuckets) {
  EXPECT_THROW(GradientSchedule({{0, 1}, {1}}), InvalidArgument);
}

TEST(GradientSchedule, ExpectsTheReverseOfRegistration) {
  EXPECT_THAT(expected_order(3), ElementsAre(2, 1, 0));
  EXPECT_THAT(expected_order(0), IsEmpty());
}

TEST(Bucket, LaysEntriesOutOnCacheLines) {
  const ParameterInfo wide{.count = 3, .element = 8, .type = "Double"};
  Bucket bucket = bucket_for(wide);
  append(bucket, 7, wide);
  append(bucket, 2, wide);
  EXPECT_EQ(bucket.entries, (std::vector<BucketEntry>{{7, 0, 3}, {2, 8, 3}}));
  EXPECT_EQ(bucket.bytes(), 11u * 8);
  EXPECT_TRUE(same_kind(bucket, wide));
  EXPECT_FALSE(same_kind(bucket, {.count = 3}));
}

} // namespace
} // namespace argosy::training
