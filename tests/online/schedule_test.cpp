#include "argosy/online/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "tests/support/refusal.h"

namespace argosy::online {
namespace {

using argosy::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<PassPlan> all_passes(const Schedule& schedule) {
  std::vector<PassPlan> plans;
  auto plan = next_pass(schedule, first_progress(schedule));
  while (plan) {
    plans.push_back(*plan);
    plan = next_pass(schedule, plan->after);
  }
  return plans;
}

TEST(Schedule, APassHasTheFilesOfItsTimeOfDay) {
  const Schedule schedule{
      .first_day = "20261231",
      .num_days = 2,
      .passes_per_day = 12,
      .splits_per_pass = 4,
      .files = "s3://logs/{day}/{hour}{minute}/part-*",
      .ready = "s3://logs/{day}/{hour}{minute}/_SUCCESS"};
  const auto plans = all_passes(schedule);
  ASSERT_EQ(plans.size(), 24U);
  EXPECT_THAT(
      plans[4].files,
      ElementsAre(
          "s3://logs/20261231/0800/part-*",
          "s3://logs/20261231/0830/part-*",
          "s3://logs/20261231/0900/part-*",
          "s3://logs/20261231/0930/part-*"));
  EXPECT_EQ(plans[4].ready[3], "s3://logs/20261231/0930/_SUCCESS");
  EXPECT_EQ(plans[12].files[0], "s3://logs/20270101/0000/part-*");
  // Each split of both days once.
  std::vector<std::string> files;
  for (const PassPlan& plan : plans) {
    files.insert(files.end(), plan.files.begin(), plan.files.end());
  }
  EXPECT_EQ(files.size(), 96U);
  EXPECT_TRUE(std::ranges::is_sorted(files));
  EXPECT_EQ(std::ranges::adjacent_find(files), files.end());
}

TEST(Schedule, SavesAsItSays) {
  const Schedule schedule{
      .first_day = "20261118",
      .num_days = 2,
      .passes_per_day = 4,
      .files = "{day}/{pass}-{split}",
      .checkpoint_every = 2,
      .export_every = 2};
  const auto plans = all_passes(schedule);
  ASSERT_EQ(plans.size(), 8U);
  EXPECT_EQ(
      plans[0],
      (PassPlan{
          .day = "20261118",
          .pass = 1,
          .files = {"20261118/1-0"},
          .after = {"20261118", 1}}));
  // The first export is a base.
  EXPECT_EQ(
      plans[1],
      (PassPlan{
          .day = "20261118",
          .pass = 2,
          .files = {"20261118/2-1"},
          .exported = PlannedExport{1, true, "20261118/base-2"},
          .checkpoint = "20261118/2",
          .after = {"20261118", 2, 1}}));
  EXPECT_EQ(
      plans[3],
      (PassPlan{
          .day = "20261118",
          .pass = 4,
          .files = {"20261118/4-3"},
          .ends_day = true,
          .exported = PlannedExport{2, true, "20261119/base"},
          .checkpoint = "20261119/0",
          .after = {"20261119", 0, 2}}));
  EXPECT_EQ(plans[5].exported, (PlannedExport{3, false, "20261119/delta-2"}));
  EXPECT_EQ(plans[7].after, (Progress{"20261120", 0, 4}));
}

// Wherever a job goes on, it does what it would have done.
TEST(Schedule, GoesOnFromAnyPass) {
  const Schedule schedule{
      .first_day = "20240228", // of a leap year
      .num_days = 3,
      .passes_per_day = 5,
      .files = "{day}-{pass}",
      .checkpoint_every = 2,
      .export_every = 4};
  const auto plans = all_passes(schedule);
  ASSERT_EQ(plans.size(), 15U);
  EXPECT_EQ(plans[5].day, "20240229");
  EXPECT_EQ(plans[10].day, "20240301");
  for (std::size_t i = 0; i + 1 < plans.size(); ++i) {
    EXPECT_EQ(next_pass(schedule, plans[i].after), plans[i + 1]);
  }
  EXPECT_EQ(next_pass(schedule, plans.back().after), std::nullopt);
  EXPECT_EQ(next_day("20261231"), "20270101");
}

TEST(Schedule, RefusesWhatHasNoMeaning) {
  const Schedule good{.first_day = "20261118", .files = "{day}"};
  const auto refused = [&](auto change) {
    Schedule schedule = good;
    change(schedule);
    return refusal([&] { check(schedule); });
  };
  EXPECT_EQ(refused([](Schedule&) {}), "");
  EXPECT_THAT(
      refused([](Schedule& s) { s.first_day = "20260230"; }),
      HasSubstr("day '20260230'"));
  EXPECT_THAT(
      refused([](Schedule& s) { s.first_day = "2026-1-1"; }),
      HasSubstr("day '2026-1-1'"));
  EXPECT_THAT(
      refused([](Schedule& s) { s.passes_per_day = 0; }),
      HasSubstr("of 0 passes"));
  EXPECT_THAT(
      refused([](Schedule& s) { s.files = ""; }), HasSubstr("no files"));
  EXPECT_THAT(
      refused([](Schedule& s) {
        s.checkpoint_every = 2;
        s.export_every = 3;
      }),
      HasSubstr("expected a multiple"));
  EXPECT_THAT(
      refused([](Schedule& s) { s.files_per_pass = 2; }),
      HasSubstr("a folder that grows"));
  EXPECT_THAT(
      refused([](Schedule& s) {
        s.files = "{hour}{minute}";
        s.passes_per_day = 7;
      }),
      HasSubstr("7 splits of a day"));
  EXPECT_THAT(
      refusal([&] {
        next_pass(good, {"20261118", 24});
      }),
      HasSubstr("pass 24 of 20261118"));
  EXPECT_THAT(
      refusal([&] {
        next_pass(good, {"20261117", 0});
      }),
      HasSubstr("from 20261118 on"));
}

} // namespace
} // namespace argosy::online
