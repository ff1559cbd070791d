#include "argosy/pipeline/synthesis/greedy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "argosy/pipeline/index.h"

namespace argosy::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Choice {
  Step step;
  double begin = kNever;
};

struct Stage {
  double clock = 0;
  int ahead = 0; // microbatches between forward and backward of weights
  double kept = 0;
  std::array<std::vector<int>, 4> done; // count by pass and chunk
};

// List scheduling in simulated time. Each stage has a clock and a choice: the
// step that its rule would run next, and the earliest time at which that step
// can begin. The loop runs the earliest choice of all stages and renews the
// choices that this can change: those of the stage itself and of the stage that
// waits for the result.
//
// A run takes 3 * parts * microbatches rounds of O(stages + chunks^2).
class Greedy {
 public:
  Greedy(
      const Schedule& shape,
      const PartCosts& costs,
      double memory_cap,
      const GreedyRule& rule)
      : schedule_(shape),
        costs_(costs),
        cap_(memory_cap),
        rule_(rule),
        stages_(at(shape.stages)) {
    schedule_.steps.assign(at(shape.stages), {});
    for (Stage& stage : stages_) {
      stage.done.fill(std::vector<int>(at(shape.chunks), 0));
    }
    for (auto& ends : ends_) {
      ends.assign(at(shape.parts() * shape.microbatches), kNever);
    }
  }

  std::optional<Schedule> run() {
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      choices_.push_back(choose(stage));
    }
    const int steps = 3 * schedule_.parts() * schedule_.microbatches;
    for (int i = 0; i < steps; ++i) {
      // Takes the stage that can start first: no later decision of others can
      // change its choices.
      const auto first = std::ranges::min_element(
          choices_,
          [](const Choice& a, const Choice& b) { return a.begin < b.begin; });
      if (first->begin == kNever) {
        return std::nullopt;
      }
      take(static_cast<int>(first - choices_.begin()), *first);
    }
    return std::move(schedule_);
  }

 private:
  Choice choose(int stage) const {
    const Stage& state = stages_[at(stage)];
    const Choice weight = next_weight(stage);
    Choice best;
    Choice input;
    for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
      const Choice backward = next(stage, Pass::kBackwardInput, chunk);
      input = prefer(stage, input, backward);
      best = prefer(stage, best, backward);
      best = prefer(stage, best, next(stage, Pass::kForward, chunk));
    }
    if (weight.begin == kNever) {
      return best;
    }
    // A weight step runs only if the preferred step would leave the stage idle
    // for longer than `slack`.
    const double slack = rule_[at(stage)].patience *
        costs_.times[at(schedule_.part_of(stage, weight.step.chunk))].weight;
    // With weight_first, only a backward of inputs can precede the weight step.
    const Choice& rival = rule_[at(stage)].weight_first ? input : best;
    return rival.begin <= state.clock + slack ? rival : weight;
  }

  // The earlier one; at equal times the one that the rule prefers.
  Choice prefer(int stage, const Choice& a, const Choice& b) const {
    const StageRule& rule = rule_[at(stage)];
    const auto key = [&rule](const Choice& choice) {
      const bool forward = choice.step.pass == Pass::kForward;
      const int chunk = choice.step.chunk;
      return std::tuple(
          choice.begin,
          forward != rule.forward_first,
          rule.deep_first ? -chunk : chunk);
    };
    return key(b) < key(a) ? b : a;
  }

  Choice next(int stage, Pass pass, int chunk) const {
    const int batch = done(stage, pass, chunk);
    if (batch == schedule_.microbatches ||
        (pass == Pass::kForward && !admits(stage, chunk))) {
      return {};
    }
    const int part = schedule_.part_of(stage, chunk);
    const Dependencies needs = dependencies_of(pass, part, schedule_.parts());
    double begin = stages_[at(stage)].clock;
    // A need that has not run ends at kNever, which makes `begin` infinite.
    for (const auto& need : {needs.own, needs.other}) {
      if (need) {
        const bool sent = schedule_.stage_of(need->part) != stage;
        begin = std::max(
            begin,
            end_of(need->pass, need->part, batch) +
                (sent ? costs_.message : 0));
      }
    }
    return {{pass, chunk, batch}, begin};
  }

  // The backward of weights of the chunk that is furthest behind.
  Choice next_weight(int stage) const {
    Choice best;
    // From the last chunk, so that ties go to it: its backward comes first.
    for (int chunk = schedule_.chunks - 1; chunk >= 0; --chunk) {
      const int batch = done(stage, Pass::kBackwardWeight, chunk);
      if (batch < done(stage, Pass::kBackwardInput, chunk) &&
          (best.begin == kNever || batch < best.step.microbatch)) {
        best = {
            {Pass::kBackwardWeight, chunk, batch}, stages_[at(stage)].clock};
      }
    }
    return best;
  }

  // Whether there is memory for a forward and, in addition, for finishing the
  // oldest unfinished microbatch: it can then always proceed, and frees memory
  // for the next one when it is done.
  bool admits(int stage, int chunk) const {
    const Stage& state = stages_[at(stage)];
    if (state.ahead >= rule_[at(stage)].ahead) {
      return false;
    }
    const auto& forwards = state.done[at(static_cast<int>(Pass::kForward))];
    const int oldest = *std::ranges::min_element(forwards);
    double needed = state.kept;
    for (int other = 0; other < schedule_.chunks; ++other) {
      const bool counts = other == chunk || forwards[at(other)] == oldest;
      needed += counts ? memory_of(stage, other) : 0;
    }
    return needed <= cap_;
  }

  void take(int stage, Choice choice) {
    const Step& step = choice.step;
    const int part = schedule_.part_of(stage, step.chunk);
    Stage& state = stages_[at(stage)];
    state.clock = choice.begin + duration(step.pass, costs_.times[at(part)]);
    const double memory = memory_of(stage, step.chunk);
    if (step.pass == Pass::kForward) {
      ++state.ahead;
    } else if (step.pass == Pass::kBackwardWeight) {
      --state.ahead;
    }
    state.kept += memory * memory_change(step.pass, costs_.kept_after_input);
    ++state.done[at(static_cast<int>(step.pass))][at(step.chunk)];
    schedule_.steps[at(stage)].push_back(step);
    // No other stage waits for a backward of weights.
    if (step.pass == Pass::kBackwardWeight) {
      choices_[at(stage)] = choose(stage);
    } else {
      tell(step, part, state.clock);
    }
  }

  // Updates the choices of this stage and of the stage that waits for the step.
  void tell(const Step& step, int part, double end) {
    const bool forward = step.pass == Pass::kForward;
    ends_[forward ? 0 : 1]
         [at(part * schedule_.microbatches + step.microbatch)] = end;
    const int other = forward ? part + 1 : part - 1;
    for (const int waiting : {part, other}) {
      if (waiting >= 0 && waiting < schedule_.parts()) {
        const int stage = schedule_.stage_of(waiting);
        choices_[at(stage)] = choose(stage);
      }
    }
  }

  int done(int stage, Pass pass, int chunk) const {
    return stages_[at(stage)].done[at(static_cast<int>(pass))][at(chunk)];
  }

  double memory_of(int stage, int chunk) const {
    return costs_.memory.empty()
        ? 1
        : costs_.memory[at(schedule_.part_of(stage, chunk))];
  }

  double end_of(Pass pass, int part, int batch) const {
    return ends_[pass == Pass::kForward ? 0 : 1]
                [at(part * schedule_.microbatches + batch)];
  }

  Schedule schedule_;
  const PartCosts& costs_;
  const double cap_;
  const GreedyRule& rule_;
  std::vector<Stage> stages_;
  std::vector<Choice> choices_; // the next step of each stage
  // Of forwards; of backwards of inputs.
  std::array<std::vector<double>, 2> ends_;
};

// The same rule for all stages or, if `narrows`, with fewer microbatches ahead
// on later stages, as in 1F1B.
GreedyRule same_rule(const Schedule& shape, StageRule rule, bool narrows) {
  GreedyRule rules;
  for (int stage = 0; stage < shape.stages; ++stage) {
    rules.push_back(rule);
    if (narrows) {
      rule.ahead = std::max(shape.chunks, rule.ahead - shape.chunks);
    }
  }
  return rules;
}

} // namespace

std::vector<GreedyRule> greedy_rules(const Schedule& shape) {
  const int filled = shape.parts();
  const int all = shape.chunks * shape.microbatches;
  std::vector<GreedyRule> rules;
  // No limit, then limits around the number that fills every part once.
  for (const int ahead :
       {all, filled, filled + 1, filled + shape.chunks, 2 * filled - 1}) {
    for (int bits = 0; bits < 16; ++bits) {
      if ((bits & 8) != 0 && shape.chunks == 1) {
        continue; // there is no deeper chunk
      }
      for (const double patience : {0.0, 0.5, 1.0}) {
        const StageRule rule{
            .ahead = ahead,
            .forward_first = (bits & 2) != 0,
            .weight_first = (bits & 4) != 0,
            .deep_first = (bits & 8) != 0,
            .patience = patience};
        const bool narrows = (bits & 1) != 0;
        rules.push_back(same_rule(shape, rule, narrows));
      }
    }
  }
  return rules;
}

std::optional<Schedule> greedy_schedule(
    const Schedule& shape,
    const PartCosts& costs,
    double memory_cap,
    const GreedyRule& rule) {
  return Greedy(shape, costs, memory_cap, rule).run();
}

} // namespace argosy::pipeline
