#include "argosy/pipeline/timeline.h"

#include <algorithm>

namespace argosy::pipeline {
namespace {

// Visits the stages in turn and runs the steps of each until one needs a step
// that has not run. A round without progress ends the simulation: all is done,
// or the stages wait for one another. A step begins at the maximum of times
// that do not depend on the order of visits, so neither does the result.
//
// ends_ has the end of each forward and backward of inputs by part and
// microbatch, so that a dependency is one lookup. The cost is O(steps + rounds
// * stages).
class TimelineBuilder {
 public:
  TimelineBuilder(
      const Schedule& schedule,
      const std::vector<PartTimes>& times,
      double message)
      : schedule_(schedule),
        times_(times),
        message_(message),
        ends_(
            2 *
                static_cast<std::size_t>(
                    schedule.parts() * schedule.microbatches),
            kNever) {
    timeline_.spans.resize(schedule.steps.size());
  }

  Timeline build() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < schedule_.stages; ++stage) {
        while (advance(stage)) {
          moved = true;
        }
      }
    }
    return std::move(timeline_);
  }

 private:
  static constexpr double kNever = -1;

  // Runs the stage's next step if it can; returns whether it did.
  bool advance(int stage) {
    const auto& steps = schedule_.steps[static_cast<std::size_t>(stage)];
    auto& spans = timeline_.spans[static_cast<std::size_t>(stage)];
    if (spans.size() == steps.size()) {
      return false;
    }
    const Step& step = steps[spans.size()];
    const int part = schedule_.part_of(stage, step.chunk);
    const Dependencies needs =
        dependencies_of(step.pass, part, schedule_.parts());
    double begin = spans.empty() ? 0 : spans.back().end;
    if (!wait(needs.own, step.microbatch, stage, begin) ||
        !wait(needs.other, step.microbatch, stage, begin)) {
      return false;
    }
    const double end =
        begin + duration(step.pass, times_[static_cast<std::size_t>(part)]);
    spans.push_back({begin, end});
    timeline_.makespan = std::max(timeline_.makespan, end);
    // Nothing depends on a backward of weights, so ends_ has no row for it.
    if (step.pass != Pass::kBackwardWeight) {
      end_of(step.pass, part, step.microbatch) = end;
    }
    return true;
  }

  // Moves `begin` to the time when the dependency is met; returns false if that
  // is not known yet.
  bool wait(
      const std::optional<Dependency>& need,
      int microbatch,
      int stage,
      double& begin) {
    if (!need) {
      return true;
    }
    const double end = end_of(need->pass, need->part, microbatch);
    const bool sent = schedule_.stage_of(need->part) != stage;
    begin = std::max(begin, end + (sent ? message_ : 0));
    return end != kNever;
  }

  double& end_of(Pass pass, int part, int microbatch) {
    // A whole backward shares the row of kBackwardInput, which it stands for.
    const int row = pass == Pass::kForward ? part : schedule_.parts() + part;
    return ends_[static_cast<std::size_t>(
        row * schedule_.microbatches + microbatch)];
  }

  const Schedule& schedule_;
  const std::vector<PartTimes>& times_;
  const double message_;
  std::vector<double> ends_; // of forwards, then of backwards of inputs
  Timeline timeline_;
};

} // namespace

double duration(Pass pass, const PartTimes& times) {
  switch (pass) {
    case Pass::kForward:
      return times.forward;
    case Pass::kBackward:
      return times.input + times.weight;
    case Pass::kBackwardInput:
      return times.input;
    case Pass::kBackwardWeight:
      return times.weight;
  }
  return 0;
}

Dependencies dependencies_of(Pass pass, int part, int parts) {
  Dependencies needs;
  if (pass == Pass::kForward) {
    if (part > 0) {
      needs.other = {Pass::kForward, part - 1};
    }
    return needs;
  }
  if (pass == Pass::kBackwardWeight) {
    needs.own = {Pass::kBackwardInput, part};
    return needs;
  }
  needs.own = {Pass::kForward, part};
  if (part + 1 < parts) {
    needs.other = {Pass::kBackwardInput, part + 1};
  }
  return needs;
}

StepRef find_step(
    const Schedule& schedule, const Dependency& need, int microbatch) {
  const int chunk = schedule.chunk_of(need.part);
  const auto stage = static_cast<std::size_t>(schedule.stage_of(need.part));
  const auto& steps = schedule.steps[stage];
  const auto found = std::ranges::find_if(steps, [&](const Step& step) {
    const bool same_pass = step.pass == need.pass ||
        (step.pass == Pass::kBackward && need.pass == Pass::kBackwardInput);
    return same_pass && step.microbatch == microbatch && step.chunk == chunk;
  });
  return {stage, static_cast<std::size_t>(found - steps.begin())};
}

bool Timeline::finished(const Schedule& schedule) const {
  for (std::size_t stage = 0; stage < spans.size(); ++stage) {
    if (spans[stage].size() < schedule.steps[stage].size()) {
      return false;
    }
  }
  return true;
}

Timeline make_timeline(
    const Schedule& schedule,
    const std::vector<PartTimes>& times,
    double message) {
  return TimelineBuilder(schedule, times, message).build();
}

} // namespace argosy::pipeline
