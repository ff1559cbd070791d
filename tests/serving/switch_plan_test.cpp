#include "argosy/serving/switch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace argosy::serving {
namespace {

ExportName base(std::uint64_t number) {
  return {number, ExportKind::Base};
}

ExportName delta(std::uint64_t number) {
  return {number, ExportKind::Delta};
}

TEST(SwitchPlan, BeginsWithTheNewestBase) {
  EXPECT_EQ(
      plan_switch({delta(5), base(1), delta(2), base(4)}, std::nullopt),
      (SwitchPlan{{base(4), delta(5)}}));
  EXPECT_EQ(plan_switch({}, std::nullopt), SwitchPlan{});
  EXPECT_EQ(
      plan_switch({delta(2)}, std::nullopt),
      (SwitchPlan{{}, "there are deltas, but no base"}));
}

TEST(SwitchPlan, GoesOnBehindTheCurrentVersion) {
  const std::vector<ExportName> listed = {
      base(1), delta(2), delta(3), delta(4)};
  EXPECT_EQ(plan_switch(listed, 2), (SwitchPlan{{delta(3), delta(4)}}));
  EXPECT_EQ(plan_switch(listed, 4), SwitchPlan{});
  EXPECT_EQ(plan_switch({}, 4), SwitchPlan{});
}

TEST(SwitchPlan, ANewerBaseStandsForWhatIsBeforeIt) {
  EXPECT_EQ(
      plan_switch({base(1), delta(2), base(4), delta(5)}, 1),
      (SwitchPlan{{base(4), delta(5)}}));
  EXPECT_EQ(
      plan_switch({base(1), delta(2), base(4), delta(5)}, 4),
      (SwitchPlan{{delta(5)}}));
}

TEST(SwitchPlan, StopsAtAGapAndNamesIt) {
  EXPECT_EQ(
      plan_switch({base(1), delta(2), delta(4)}, std::nullopt),
      (SwitchPlan{
          {base(1), delta(2)},
          "00000003.delta is missing, though 00000004.delta is there"}));
  EXPECT_EQ(
      plan_switch({base(1), delta(4)}, 2),
      (SwitchPlan{
          {}, "00000003.delta is missing, though 00000004.delta is there"}));
}

} // namespace
} // namespace argosy::serving
