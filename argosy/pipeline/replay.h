#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {

// How long a part takes for one microbatch, in any unit. A whole backward
// takes input + weight.
struct PartTimes {
  double forward = 1;
  double input = 1;
  double weight = 1;

  bool operator==(const PartTimes&) const = default;
};

double duration(Pass pass, const PartTimes& times);

// What a step waits for: that a pass of a part is done for its microbatch. A
// whole backward counts as one of inputs.
struct Need {
  Pass pass = Pass::kForward;
  int part = 0;
};

struct Needs {
  std::optional<Need> own;   // of the same part
  std::optional<Need> other; // of the part before or after
};

Needs needs_of(Pass pass, int part, int parts);

// A step: the index-th of a stage.
struct Place {
  std::size_t stage = 0;
  std::size_t index = 0;
};

// The step that fulfils a need, which the schedule has.
Place find_step(const Schedule& schedule, const Need& need, int microbatch);

struct Span {
  double begin = 0;
  double end = 0;
};

struct Replay {
  std::vector<std::vector<Span>> spans; // by stage, of the steps that ran
  double makespan = 0;

  bool finished(const Schedule& schedule) const;
};

// Runs the steps of all stages, each as soon as the one before it is done and
// what it needs is there, until no stage can go on. A message takes `message`
// and nobody's time. Steps must be within the ranges of the schedule.
//
// A stage sends its messages in the order of its steps, without waiting, and
// the receiver takes them in that order. That makes no step wait longer: when
// a message is sent, all before it have been. So a schedule that finishes here
// finishes over any channel that keeps messages and their order.
Replay replay(
    const Schedule& schedule,
    const std::vector<PartTimes>& times,
    double message);

} // namespace argosy::pipeline
