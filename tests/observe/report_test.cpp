// Reports: numbers from those of all ranks, and their text.

#include "argosy/observe/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "argosy/observe/report_text.h"

namespace argosy::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

RankStats stats(std::int64_t step, std::int64_t steps, double seconds) {
  return {.step = step, .steps = steps, .seconds = seconds};
}

TEST(Report, AddsUpSamplesAndAveragesLossesOverSamples) {
  RankStats a = stats(10, 2, 1);
  a.samples = 30;
  a.loss_sum = 30 * 2.0;
  a.loss_weight = 30;
  RankStats b = stats(10, 2, 2);
  b.samples = 10;
  b.loss_sum = 10 * 6.0;
  b.loss_weight = 10;
  const Report report = summarize({a, b}, 0, {});
  EXPECT_EQ(report.step, 10);
  EXPECT_EQ(report.loss, 3.0);
  EXPECT_EQ(report.samples_per_second, 35);
  EXPECT_EQ(report.step_seconds, 0.75);
  EXPECT_EQ(report.eta_seconds, std::nullopt);
  EXPECT_FALSE(report.finished);
}

TEST(Report, NamesTheSlowestRankByItsOwnTime) {
  // All steps take as long: the others wait for rank 2.
  std::vector<RankStats> ranks(4, stats(4, 4, 8));
  ranks[0].waited = 4;
  ranks[1].waited = 4;
  ranks[2].waited = 0;
  ranks[3].waited = 4;
  const Report report = summarize(ranks, 0, {});
  EXPECT_THAT(report.rank_step_seconds, ElementsAre(1, 1, 2, 1));
  EXPECT_EQ(report.slowest_rank, 2);
  EXPECT_EQ(report.slowest_ratio, 2);
}

TEST(Report, EstimatesTheEnd) {
  const Report first = summarize({stats(10, 10, 5)}, 110, {});
  EXPECT_EQ(first.eta_seconds, 50);
  // Ten times slower now: the estimate follows, but not at once.
  const Report second = summarize({stats(11, 1, 5)}, 110, first);
  EXPECT_EQ(second.step_seconds, 5);
  const double share = 1 - std::exp(-1.0);
  EXPECT_NEAR(*second.eta_seconds, 99 * (0.5 + share * 4.5), 1e-9);
  // More steps than planned.
  EXPECT_EQ(summarize({stats(120, 1, 1)}, 110, second).eta_seconds, 0);
}

TEST(Report, KeepsTheNumbersWhenNoStepsWereMade) {
  RankStats rank = stats(10, 10, 5);
  rank.loss_sum = 3;
  rank.loss_weight = 1;
  const Report report = summarize({rank}, 10, {});
  Report expected = report;
  expected.finished = true;
  RankStats end = stats(10, 0, 0);
  end.finished = true;
  EXPECT_EQ(summarize({end}, 10, report), expected);
}

TEST(Report, KeepsTheTimeOfARankThatHasFinished) {
  const Report first = summarize({stats(9, 9, 9), stats(9, 9, 18)}, 0, {});
  const Report second = summarize({stats(9, 0, 0), stats(10, 1, 3)}, 0, first);
  EXPECT_THAT(second.rank_step_seconds, ElementsAre(1, 3));
  EXPECT_EQ(second.slowest_ratio, 1.5);
}

TEST(Report, IsTheLastWhenAllRanksHaveFinished) {
  RankStats ended = stats(9, 0, 0);
  ended.finished = true;
  EXPECT_FALSE(summarize({ended, stats(10, 1, 1)}, 0, {}).finished);
  EXPECT_TRUE(summarize({ended, ended}, 0, {}).finished);
}

TEST(NextReport, ComesWhenTheMostImpatientWishes) {
  std::vector<RankStats> ranks = {stats(10, 5, 1), stats(10, 5, 0.5)};
  ranks[0].period = 2;
  EXPECT_EQ(steps_to_next_report(ranks, 0), 10);
  ranks[1].period = 0.5;
  EXPECT_EQ(steps_to_next_report(ranks, 0), 3);
  ranks[1].period = 0.1;
  EXPECT_EQ(steps_to_next_report(ranks, 0), 1);
}

TEST(NextReport, IsTheFirstStepWhenNothingIsKnown) {
  RankStats rank;
  rank.period = 2;
  EXPECT_EQ(steps_to_next_report({rank}, 0), 1);
}

TEST(NextReport, IsAtMultiplesWhenAsked) {
  EXPECT_EQ(steps_to_next_report({stats(0, 0, 0)}, 50), 50);
  EXPECT_EQ(steps_to_next_report({stats(120, 20, 1)}, 50), 30);
  EXPECT_EQ(steps_to_next_report({stats(150, 20, 1)}, 50), 50);
}

TEST(Median, IsTheMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({}), 0);
}

TEST(Scalars, LeaveOutWhatIsNotKnown) {
  Report report;
  report.samples_per_second = 5;
  report.values = {{"lr", 0.1}};
  EXPECT_THAT(
      scalars(report),
      ElementsAre(
          Pair("samples_per_second", 5),
          Pair("step_seconds", 0),
          Pair("lr", 0.1)));
  report.loss = 2;
  report.rank_step_seconds = {1, 3};
  report.slowest_ratio = 1.5;
  EXPECT_THAT(
      scalars(report),
      ElementsAre(
          Pair("loss", 2),
          Pair("samples_per_second", 5),
          Pair("step_seconds", 0),
          Pair("slowest_ratio", 1.5),
          Pair("lr", 0.1)));
}

TEST(ReportText, ShortensNumbers) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(12), "12");
  EXPECT_EQ(short_number(12.34), "12.3");
  EXPECT_EQ(short_number(1.5), "1.5");
  EXPECT_EQ(short_number(999), "999");
  EXPECT_EQ(short_number(999.9), "1k");
  EXPECT_EQ(short_number(4210), "4.21k");
  EXPECT_EQ(short_number(1.25e6), "1.25M");
  EXPECT_EQ(short_number(3e9), "3G");
}

TEST(ReportText, WritesDurationsAndClocks) {
  EXPECT_EQ(duration_text(1.311), "1.31 s");
  EXPECT_EQ(duration_text(0.0831), "83.1 ms");
  EXPECT_EQ(duration_text(0.00094), "940 us");
  EXPECT_EQ(duration_text(120), "120 s");
  EXPECT_EQ(clock_text(7), "0:07");
  EXPECT_EQ(clock_text(59.7), "1:00");
  EXPECT_EQ(clock_text(3727), "1:02:07");
  EXPECT_EQ(clock_text(3 * 86400 + 3727), "3d 01:02:07");
  EXPECT_EQ(clock_text(-5), "0:00");
  EXPECT_EQ(
      clock_text(std::numeric_limits<double>::infinity()), "11574d 01:46:40");
}

TEST(ReportText, IsOneLine) {
  Report report;
  report.step = 12;
  EXPECT_EQ(report_text(report), "step 12");
  report.total_steps = 100;
  report.loss = 2.34567;
  report.samples_per_second = 1234;
  report.step_seconds = 0.0831;
  report.eta_seconds = 7.3;
  report.slowest_rank = 3;
  report.slowest_ratio = 1.313;
  report.values = {{"lr", 0.001}, {"tokens", 5}};
  EXPECT_EQ(
      report_text(report, {"lr"}),
      "step 12/100  loss 2.3457  1.23k samples/s  83.1 ms/step  eta 0:07  "
      "slowest rank 3: 1.31 x median  lr 0.001");
  report.slowest_ratio = 1.05; // noise
  report.finished = true;
  EXPECT_EQ(
      report_text(report),
      "step 12/100  loss 2.3457  1.23k samples/s  83.1 ms/step");
  report.loss = std::nan("");
  EXPECT_THAT(report_text(report), ::testing::HasSubstr("loss nan"));
}

} // namespace
} // namespace argosy::observe
