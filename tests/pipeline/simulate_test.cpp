#include "argosy/pipeline/simulate.h"

#include <gmock/gmock.h>

#include "argosy/pipeline/schedule_formulas.h"
#include "argosy/pipeline/step_text.h"
#include "tests/pipeline/each_schedule.h"

namespace argosy::pipeline {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(Simulate, SaysWhenStepsBeginAndEnd) {
  const Schedule schedule = one_forward_one_backward(2, 2);
  // F0 F1 B0 B1 at stage 0, F0 B0 F1 B1 at stage 1, which is slower.
  const Simulation result = simulate(schedule, {{1, 1, 1}, {2, 1, 2}}, 0.5);
  const auto begins = [&](std::size_t stage) {
    std::vector<double> times;
    for (const Span& span : result.spans[stage]) {
      times.push_back(span.begin);
    }
    return times;
  };
  EXPECT_THAT(begins(0), ElementsAre(0, 1, 7, 12));
  EXPECT_THAT(begins(1), ElementsAre(1.5, 3.5, 6.5, 8.5));
  EXPECT_EQ(result.makespan, 14);
  EXPECT_THAT(
      result.bubbles,
      ElementsAre(DoubleEq(1 - 6 / 14.0), DoubleEq(1 - 10 / 14.0)));
  EXPECT_DOUBLE_EQ(result.bubble_rate, 1 - 8 / 14.0);
}

TEST(Simulate, MessagesWithinAStageTakeNoTime) {
  // Down and up the V there are two messages, each way. Stage 1 runs one
  // backward of weights before that of inputs which stage 0 waits for.
  const Schedule schedule = zero_bubble_v(2, 1);
  PartCosts costs = equal_costs(schedule);
  costs.message = 10;
  EXPECT_EQ(simulate(schedule, costs).makespan, 4 + 5 + 1 + 40);
  EXPECT_EQ(simulate(gpipe(1, 2, 2), {{}, {}}, 10).makespan, 12);
}

TEST(Simulate, EqualsTheFormulasOfBubbles) {
  int compared = 0;
  for_each_schedule([&](const Schedule& schedule) {
    for (const PartTimes& times :
         {PartTimes{1, 1, 1},
          PartTimes{1, 1, 0.5},
          PartTimes{1, 2, 1},
          PartTimes{2, 1, 1},
          PartTimes{1, 1, 2},
          PartTimes{1, 3, 2}}) {
      const auto expected = bubble_formula(schedule, times);
      if (expected) {
        const auto result = simulate(schedule, equal_costs(schedule, times));
        EXPECT_NEAR(result.bubble_rate, *expected, 1e-12);
        ++compared;
      }
    }
  });
  // All but zbv, and zbh1 with m < p, with times that differ.
  EXPECT_EQ(compared, 10 * 72 * 6 - 5 * (72 + 15));
}

TEST(Formulas, AreThoseOfThePapers) {
  const auto bubble = [](const std::string& name, int v) {
    return *bubble_formula(make_schedule(name, 4, 8, v));
  };
  EXPECT_DOUBLE_EQ(bubble("gpipe", 1), 3.0 / (8 + 3));
  EXPECT_DOUBLE_EQ(bubble("1f1b", 1), 3.0 / (8 + 3));
  EXPECT_DOUBLE_EQ(bubble("eager", 1), 3.0 / (8 + 3));
  EXPECT_DOUBLE_EQ(bubble("interleaved", 2), 3.0 / (2 * 8 + 3));
  EXPECT_DOUBLE_EQ(bubble("zbh1", 1), 3.0 / (3 * 8 + 3));
  EXPECT_DOUBLE_EQ(bubble("zbv", 1), 3.0 / (6 * 8 + 3));
  Schedule other = gpipe(2, 2);
  other.name = "other";
  EXPECT_FALSE(bubble_formula(other));
  EXPECT_FALSE(peak_formula(other, 0));
}

TEST(Simulate, EqualsTheFormulasOfMemory) {
  for_each_schedule([](const Schedule& schedule) {
    const auto result = simulate(schedule, equal_costs(schedule));
    for (int stage = 0; stage < schedule.stages; ++stage) {
      EXPECT_EQ(
          result.peak_activations[static_cast<std::size_t>(stage)],
          *peak_formula(schedule, stage))
          << stage;
    }
  });
}

TEST(Simulate, KnowsThePeaksOfThePapers) {
  const auto peaks = [](const Schedule& schedule) {
    return peak_memory(schedule);
  };
  EXPECT_THAT(peaks(gpipe(4, 8)), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(peaks(one_forward_one_backward(4, 8)), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(peaks(eager(4, 8)), ElementsAre(7, 5, 3, 1));
  EXPECT_THAT(peaks(interleaved(4, 8, 2)), ElementsAre(11, 9, 7, 5));
  EXPECT_THAT(peaks(zero_bubble_h1(4, 8)), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(peaks(zero_bubble_v(4, 8)), ElementsAre(8, 8, 8, 8));
}

TEST(Simulate, WeighsMemoryByPartAndPass) {
  Schedule schedule{
      .name = "test",
      .stages = 1,
      .microbatches = 2,
      .chunks = 2,
      .steps = {parse_steps("F0 F0.1 I0.1 F1 F1.1 B1.1 W0.1 B0 B1")}};
  PartCosts costs = equal_costs(schedule);
  costs.memory = {10, 100};
  costs.kept_after_input = 0.25;
  const auto result = simulate(schedule, costs);
  EXPECT_THAT(result.peak_memory, ElementsAre(10 + 25 + 10 + 100));
  EXPECT_THAT(result.peak_activations, ElementsAre(3.25));
}

TEST(Simulate, RefusesWhatItCannotRun) {
  const Schedule schedule = gpipe(2, 2);
  EXPECT_THROW(simulate(schedule, {{1, 1, 1}}), InvalidArgument);
  EXPECT_THROW(simulate(schedule, {{}, {1, -1, 1}}), InvalidArgument);
  EXPECT_THROW(simulate(schedule, {{}, {}}, -1), InvalidArgument);
  PartCosts costs = equal_costs(schedule);
  costs.memory = {1};
  EXPECT_THROW(simulate(schedule, costs), InvalidArgument);
  costs.memory.clear();
  costs.kept_after_input = 2;
  EXPECT_THROW(simulate(schedule, costs), InvalidArgument);
  Schedule broken = schedule;
  broken.steps[0].pop_back();
  EXPECT_THROW(simulate(broken, equal_costs(broken)), InvalidArgument);
}

} // namespace
} // namespace argosy::pipeline
