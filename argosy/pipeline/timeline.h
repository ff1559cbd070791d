#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {

// Times of the passes of a part for one microbatch, in any unit. A whole
// backward takes input + weight.
struct PartTimes {
  double forward = 1;
  double input = 1;
  double weight = 1;

  bool operator==(const PartTimes&) const = default;
};

double duration(Pass pass, const PartTimes& times);

// A pass of a part that must be done for the same microbatch before a step
// starts. A whole backward satisfies a dependency on kBackwardInput.
struct Dependency {
  Pass pass = Pass::kForward;
  int part = 0;
};

struct Dependencies {
  std::optional<Dependency> own;   // on the same part
  std::optional<Dependency> other; // on the previous or next part
};

Dependencies dependencies_of(Pass pass, int part, int parts);

// Identifies a step: the index-th of a stage.
struct StepRef {
  std::size_t stage = 0;
  std::size_t index = 0;
};

// Finds the step that satisfies a dependency; the schedule must contain it.
StepRef find_step(
    const Schedule& schedule, const Dependency& need, int microbatch);

struct Span {
  double begin = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<Span>> spans; // by stage, of the steps that ran
  double makespan = 0;

  bool finished(const Schedule& schedule) const;
};

// Computes when each step runs: as soon as its predecessor on the stage and its
// dependencies are done, until no stage can proceed. A message takes the time
// `message` and occupies no stage. Steps must be within the schedule's ranges.
//
// Stages send messages in the order of their steps without waiting, and
// receivers take them in that order. Order delays no step: when a message is
// sent, all earlier ones have been. So a schedule that finishes here cannot
// deadlock over any buffered, ordered channel.
Timeline make_timeline(
    const Schedule& schedule,
    const std::vector<PartTimes>& times,
    double message);

} // namespace argosy::pipeline
