#include "argosy/pipeline/synthesize.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "argosy/common/error.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "argosy/pipeline/simulate.h"

namespace argosy::pipeline {
namespace {

using Steps = std::vector<Step>;

// All orders of the passes of one chunk with microbatches in order.
void all_orders(
    int microbatches,
    std::array<int, 3> done,
    Steps& steps,
    std::vector<Steps>& orders) {
  constexpr Pass kPasses[] = {
      Pass::kForward, Pass::kBackwardInput, Pass::kBackwardWeight};
  if (done[2] == microbatches) {
    orders.push_back(steps);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const int limit = i == 0 ? microbatches : done[i - 1];
    if (done[i] < limit) {
      steps.push_back({kPasses[i], 0, done[i]});
      auto next = done;
      ++next[i];
      all_orders(microbatches, next, steps, orders);
      steps.pop_back();
    }
  }
}

bool fits(const Schedule& schedule, const SynthesisInput& input) {
  const auto peaks =
      peak_memory(schedule, input.costs.memory, input.costs.kept_after_input);
  return *std::max_element(peaks.begin(), peaks.end()) <= input.memory_cap;
}

// The shortest makespan of all schedules that fit.
double optimum(const SynthesisInput& input) {
  std::vector<Steps> orders;
  Steps steps;
  all_orders(input.microbatches, {}, steps, orders);
  std::size_t all = 1;
  for (int stage = 0; stage < input.stages; ++stage) {
    all *= orders.size();
  }
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t code = 0; code < all; ++code) {
    Schedule schedule{
        .stages = input.stages, .microbatches = input.microbatches};
    for (std::size_t rest = code;
         schedule.steps.size() < static_cast<std::size_t>(input.stages);
         rest /= orders.size()) {
      schedule.steps.push_back(orders[rest % orders.size()]);
    }
    const Timeline timeline =
        make_timeline(schedule, input.costs.times, input.costs.message);
    if (timeline.finished(schedule) && fits(schedule, input)) {
      best = std::min(best, timeline.makespan);
    }
  }
  return best;
}

SynthesisInput input_of(
    int microbatches, const std::vector<PartTimes>& times, int chunks = 1) {
  SynthesisInput input;
  input.stages = static_cast<int>(times.size()) / chunks;
  input.microbatches = microbatches;
  input.chunks = chunks;
  input.costs.times = times;
  return input;
}

Simulation run(const SynthesisInput& input) {
  return simulate(synthesize(input), input.costs);
}

double makespan_of(const std::string& name, const SynthesisInput& input) {
  return simulate(
             make_schedule(name, input.stages, input.microbatches), input.costs)
      .makespan;
}

TEST(Synthesize, FindsTheOptimumOfSmallCases) {
  const std::vector<std::vector<PartTimes>> cases{
      {{1, 1, 1}, {1, 1, 1}},
      {{1, 2, 1}, {2, 1, 2}},
      {{3, 1, 2}, {1, 2, 1}},
      {{1, 3, 2}, {2, 1, 3}},
      {{2, 2, 1}, {1, 1, 4}},
  };
  for (const auto& times : cases) {
    for (const int microbatches : {1, 2, 3}) {
      for (const double cap : {1.0, 2.0, 3.0}) {
        for (const double message : {0.0, 1.0}) {
          auto input = input_of(microbatches, times);
          input.memory_cap = cap;
          input.costs.message = message;
          SCOPED_TRACE(str("m ", microbatches, " cap ", cap, " ", message));
          EXPECT_EQ(run(input).makespan, optimum(input));
        }
      }
    }
  }
}

TEST(Synthesize, FindsTheOptimumOfThreeStages) {
  auto input = input_of(3, {{1, 2, 1}, {2, 1, 1}, {1, 1, 2}});
  EXPECT_EQ(run(input).makespan, optimum(input));
  input.memory_cap = 2;
  EXPECT_EQ(run(input).makespan, optimum(input));
}

TEST(Synthesize, IsNeverSlowerThanAKnownSchedule) {
  for (const int p : {1, 2, 3, 4}) {
    for (const int m : {1, 3, 4, 8}) {
      for (const int v : {1, 2}) {
        std::vector<PartTimes> times;
        for (int i = 0; i < p * v; ++i) {
          times.push_back({1.0 + i % 2, 2.0 - i % 3 * 0.5, 1.0});
        }
        auto input = input_of(m, times, v);
        input.memory_cap = p * v;
        input.costs.message = 0.25;
        input.effort = 0;
        const Schedule found = synthesize(input);
        EXPECT_TRUE(fits(found, input));
        for (const std::string& name : schedule_names()) {
          const bool any = name == "gpipe" || name == "interleaved";
          const Schedule known = make_schedule(name, p, m, any ? v : 1);
          if (known.chunks == v && fits(known, input)) {
            EXPECT_LE(
                simulate(found, input.costs).makespan,
                simulate(known, input.costs).makespan + 1e-9)
                << name << " p " << p << " m " << m << " v " << v;
          }
        }
      }
    }
  }
}

TEST(Synthesize, BeatsKnownSchedulesOnUnequalStages) {
  // Stage 1 is the slow one: 8 * 4.8 of work after 1 of waiting.
  auto input =
      input_of(8, {{1, 1, 1}, {1.6, 1.6, 1.6}, {1, 1, 1}, {1.3, 1.3, 1.3}});
  const double found = run(input).makespan;
  EXPECT_NEAR(found, 1 + 8 * 4.8, 1e-9); // none is shorter
  EXPECT_LT(found, 0.97 * makespan_of("zbh1", input));
  EXPECT_LT(found, 0.87 * makespan_of("1f1b", input));
}

TEST(Synthesize, KeepsWithinTheCap) {
  const std::vector<PartTimes> times(4, PartTimes{1, 1, 1});
  double last = std::numeric_limits<double>::infinity();
  for (const double cap : {1, 2, 3, 4, 8}) {
    auto input = input_of(8, times);
    input.memory_cap = cap;
    input.effort = 0;
    const Schedule schedule = synthesize(input);
    EXPECT_TRUE(fits(schedule, input));
    const double makespan = simulate(schedule, input.costs).makespan;
    EXPECT_LE(makespan, last); // more room, no slower
    last = makespan;
  }
  EXPECT_EQ(last, 27); // as zbh1
}

TEST(Synthesize, CountsBytesAndWhatIsLeftForWeights) {
  auto input = input_of(6, std::vector<PartTimes>(4), 2);
  input.costs.memory = {100, 200, 300, 50};
  input.costs.kept_after_input = 0.3;
  input.memory_cap = 900;
  EXPECT_TRUE(fits(synthesize(input), input));
}

TEST(Synthesize, SaysTheLeastCapThatWorks) {
  auto input = input_of(4, std::vector<PartTimes>(4), 2);
  input.costs.memory = {10, 20, 40, 70};
  const auto message = [&] {
    try {
      synthesize(input);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  // In a V, stage 0 has parts 0 and 3, stage 1 the others; in a round, stage 1
  // has 20 + 70.
  input.memory_cap = 79;
  EXPECT_THAT(message(), ::testing::HasSubstr("takes 80"));
  input.order = PartOrder::kRound;
  EXPECT_THAT(message(), ::testing::HasSubstr("takes 90"));
  input.order.reset();
  input.memory_cap = 80;
  EXPECT_EQ(message(), "nothing");
  EXPECT_EQ(synthesize(input).order, PartOrder::kV);
}

// Neither known nor greedy schedules are the best of these parts.
SynthesisInput hard_input() {
  std::vector<PartTimes> times;
  for (const double factor : {1.0, 1.6, 1.0, 1.0, 1.6, 1.0, 1.0, 1.6}) {
    times.push_back({factor, 1.2 * factor, 0.9 * factor});
  }
  auto input = input_of(8, times, 2);
  input.memory_cap = 8;
  input.costs.message = 0.3;
  input.seconds = 60; // of which it takes a part
  return input;
}

TEST(Synthesize, FindsMoreThanItBeginsWith) {
  auto input = hard_input();
  const double found = run(input).makespan;
  input.effort = 0;
  EXPECT_LT(found, 0.98 * run(input).makespan);
}

TEST(Synthesize, IsTheSameForTheSameSeed) {
  auto input = hard_input();
  input.effort = 0.3;
  EXPECT_EQ(synthesize(input), synthesize(input));
}

TEST(Synthesize, KeepsMicrobatchesInOrder) {
  const Schedule schedule = synthesize(hard_input());
  for (const auto& steps : schedule.steps) {
    // A whole backward is one of inputs and one of weights.
    std::map<std::pair<Pass, int>, int> next;
    const auto check = [&](const Step& step, Pass pass) {
      const int expected = next[{pass, step.chunk}]++;
      EXPECT_EQ(step.microbatch, expected);
    };
    for (const Step& step : steps) {
      if (step.pass == Pass::kBackward) {
        check(step, Pass::kBackwardInput);
        check(step, Pass::kBackwardWeight);
      } else {
        check(step, step.pass);
      }
    }
  }
}

TEST(Synthesize, RefusesWhatMakesNoSense) {
  EXPECT_THROW(synthesize(input_of(0, {{}})), InvalidArgument);
  EXPECT_THROW(synthesize(input_of(1, {})), InvalidArgument);
  EXPECT_THROW(synthesize(input_of(1, {{1, -1, 1}})), InvalidArgument);
  auto input = input_of(1, {{}});
  input.seconds = -1;
  EXPECT_THROW(synthesize(input), InvalidArgument);
  input.seconds = 1;
  input.effort = -1;
  EXPECT_THROW(synthesize(input), InvalidArgument);
}

} // namespace
} // namespace argosy::pipeline
