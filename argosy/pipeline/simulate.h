#pragma once

#include <vector>

#include "argosy/pipeline/part_costs.h"

namespace argosy::pipeline {

// The result of simulating a schedule.
struct Simulation {
  std::vector<std::vector<Span>> spans; // by stage, like Schedule::steps
  double makespan = 0;                  // from the first begin to the last end
  // The fraction of the makespan that each stage idles, including the wait for
  // its first microbatch and for the end of the others.
  std::vector<double> bubbles; // by stage
  double bubble_rate = 0;      // mean over the stages
  // By stage, in microbatches of its parts.
  std::vector<double> peak_activations;
  std::vector<double> peak_memory; // by stage, in the unit of the costs
};

// Throws InvalidArgument when verify() rejects the schedule or the costs do not
// match its parts.
Simulation simulate(const Schedule& schedule, const PartCosts& costs);
Simulation simulate(
    const Schedule& schedule,
    const std::vector<PartTimes>& times,
    double message = 0);

} // namespace argosy::pipeline
