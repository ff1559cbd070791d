#pragma once

#include <vector>

#include "argosy/pipeline/replay.h"

namespace argosy::pipeline {

// What a schedule costs on given stages.
struct Costs {
  std::vector<PartTimes> times; // by part
  double message = 0;           // from one stage to another
  // What a part keeps from forward to backward of a microbatch, by part; none:
  // one each.
  std::vector<double> memory;
  // The share of it that the backward of weights needs.
  double kept_after_input = 1;
};

// The same times for all parts of a schedule.
Costs equal_costs(const Schedule& schedule, PartTimes times = {});

// Throws InvalidArgument unless there is one time, and one memory or none, for
// each of `parts` parts, and all of them are numbers from 0 on.
void check_costs(const Costs& costs, int parts);

// What a pass adds to what its stage keeps, as a share of the part's memory: a
// forward adds it, the backward of inputs takes off what weights do not need,
// that of weights, or the whole backward, takes off the rest.
double memory_change(Pass pass, double kept_after_input);

// The most that a stage keeps at a time. `memory` is by part, or empty.
double stage_peak(
    const Schedule& schedule,
    int stage,
    const std::vector<double>& memory,
    double kept_after_input);

// The same of all stages.
std::vector<double> peak_memory(
    const Schedule& schedule,
    const std::vector<double>& memory = {},
    double kept_after_input = 1);

} // namespace argosy::pipeline
