#pragma once

#include <vector>

#include "argosy/pipeline/timeline.h"

namespace argosy::pipeline {

// What the parts of a model cost, for simulating and synthesizing schedules.
struct PartCosts {
  std::vector<PartTimes> times; // of each part
  double message = 0;           // time of a message between two stages
  // Activation memory that each part keeps per microbatch from forward to
  // backward, in any unit. Empty: 1 for every part.
  std::vector<double> memory;
  // The fraction of it that stays allocated after the backward of inputs, for
  // the backward of weights.
  double kept_after_input = 1;
};

// Returns costs with the same times for all parts of a schedule.
PartCosts equal_costs(const Schedule& schedule, PartTimes times = {});

// Throws InvalidArgument unless `times` has `parts` entries, `memory` has as
// many or none, and no value is negative or NaN.
void check_costs(const PartCosts& costs, int parts);

// The change of the stage's activation memory by a pass, as a fraction of the
// part's memory: forward allocates all of it; backward of inputs frees what the
// weights do not need; backward of weights frees the rest. A whole backward
// frees all.
double memory_change(Pass pass, double kept_after_input);

// The peak activation memory of a stage. `memory` is per part, or empty.
double stage_peak(
    const Schedule& schedule,
    int stage,
    const std::vector<double>& memory,
    double kept_after_input);

// The peaks of all stages.
std::vector<double> peak_memory(
    const Schedule& schedule,
    const std::vector<double>& memory = {},
    double kept_after_input = 1);

} // namespace argosy::pipeline
