#pragma once

#include <vector>

#include "argosy/pipeline/costs.h"

namespace argosy::pipeline {

// How a schedule would run.
struct Simulation {
  std::vector<std::vector<Span>> spans; // by stage, as Schedule::steps
  double makespan = 0;                  // from the first begin to the last end
  // The share of the makespan in which a stage does nothing, its wait for the
  // first microbatch and for the others' ends included.
  std::vector<double> bubbles;          // by stage
  double bubble_rate = 0;               // of all stages: their mean
  std::vector<double> peak_activations; // by stage: microbatches of its parts
  std::vector<double> peak_memory;      // by stage, in the unit of the costs
};

// Throws InvalidArgument when the schedule is not verified, or the costs are
// not those of its parts.
Simulation simulate(const Schedule& schedule, const Costs& costs);
Simulation simulate(
    const Schedule& schedule,
    const std::vector<PartTimes>& times,
    double message = 0);

} // namespace argosy::pipeline
