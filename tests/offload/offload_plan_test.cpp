// What stays in memory between its uses.

#include "argosy/offload/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"

namespace argosy::offload {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Buffers that a step of an optimizer goes through, and the time in between.
OffloadSchedule optimizer_of(const std::vector<std::int64_t>& bytes) {
  OffloadSchedule schedule{.bytes = bytes};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    schedule.steps.push_back({{i}});
  }
  schedule.steps.emplace_back();
  return schedule;
}

std::vector<bool> stays(const OffloadPlan& plan) {
  std::vector<bool> result;
  for (const OffloadGap& gap : plan.gaps) {
    result.push_back(gap.stays);
  }
  return result;
}

TEST(OffloadPlan, NothingStaysWithoutRoom) {
  const OffloadPlan plan = plan_offload(optimizer_of({4, 8}), 0);
  EXPECT_THAT(
      plan.gaps,
      ElementsAre(
          OffloadGap{0, 0, 0, false, true}, OffloadGap{1, 1, 1, false, true}));
  EXPECT_THAT(
      plan.arrivals, ElementsAre(ElementsAre(0), ElementsAre(1), IsEmpty()));
  EXPECT_EQ(plan.memory, 0);
  EXPECT_EQ(plan.read, 12);
  EXPECT_EQ(plan.written, 12);
}

TEST(OffloadPlan, AllStaysWithEnoughRoom) {
  const OffloadPlan plan = plan_offload(optimizer_of({4, 8}), 12);
  EXPECT_THAT(stays(plan), ElementsAre(true, true));
  EXPECT_EQ(plan.memory, 12);
  EXPECT_EQ(plan.read + plan.written, 0);
}

// The time of the other buffer counts too: neither stays with one byte less.
TEST(OffloadPlan, SmallOnesStayFirst) {
  EXPECT_THAT(
      stays(plan_offload(optimizer_of({8, 4, 6}), 10)),
      ElementsAre(false, true, true));
  EXPECT_THAT(
      stays(plan_offload(optimizer_of({8, 4, 6}), 9)),
      ElementsAre(false, true, false));
}

// Parameters go forward and backward: the one that is used twice in a row need
// not leave, and short gaps are cheaper than long ones.
TEST(OffloadPlan, ShortGapsStayFirst) {
  OffloadSchedule layers{.bytes = {4, 4, 4}};
  layers.steps = {
      {{0, false}}, {{1, false}}, {{2, false}}, {{2}}, {{1}}, {{0}}};
  const auto find = [](const OffloadPlan& plan, std::size_t from) {
    return plan.gaps.at(from);
  };
  const OffloadPlan none = plan_offload(layers, 0);
  EXPECT_EQ(find(none, 2), (OffloadGap{2, 2, 3, true, false}));
  EXPECT_EQ(find(none, 5), (OffloadGap{0, 5, 0, true, false}));
  EXPECT_EQ(find(none, 1), (OffloadGap{1, 1, 4, false, false}));
  EXPECT_EQ(find(none, 4), (OffloadGap{1, 4, 1, false, true}));
  // Room for one: the middle layer, whose gaps are shorter.
  const OffloadPlan one = plan_offload(layers, 4);
  EXPECT_TRUE(find(one, 1).stays);
  EXPECT_TRUE(find(one, 4).stays);
  EXPECT_FALSE(find(one, 0).stays);
  EXPECT_EQ(one.memory, 4);
  EXPECT_THAT(
      one.arrivals,
      ElementsAre(
          IsEmpty(),
          IsEmpty(),
          ElementsAre(2),
          IsEmpty(),
          IsEmpty(),
          ElementsAre(0)));
}

// It changed two uses ago, and stayed since.
TEST(OffloadPlan, WritesWhatHasChangedSinceItCame) {
  OffloadSchedule schedule{.bytes = {4, 1}};
  schedule.steps = {{{0, true}}, {{0, false}}, {{1}}, {}, {}};
  const OffloadPlan plan = plan_offload(schedule, 0);
  EXPECT_EQ(plan.gaps[0], (OffloadGap{0, 0, 1, true, false}));
  EXPECT_EQ(plan.gaps[1], (OffloadGap{0, 1, 0, false, true}));
  schedule.steps[0] = {{0, false}};
  EXPECT_FALSE(plan_offload(schedule, 0).gaps[1].is_written);
  EXPECT_EQ(plan_offload(schedule, 0).written, 1);
}

TEST(OffloadPlan, RefusesWhatIsNoSchedule) {
  OffloadSchedule schedule{.bytes = {4}};
  schedule.steps = {{{1}}};
  EXPECT_THROW(plan_offload(schedule, 0), InvalidArgument);
  schedule.steps = {{{0}, {0}}};
  EXPECT_THROW(plan_offload(schedule, 0), InvalidArgument);
}

} // namespace
} // namespace argosy::offload
