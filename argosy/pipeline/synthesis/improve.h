#pragma once

#include <cstdint>

#include "argosy/common/deadline.h"
#include "argosy/pipeline/part_costs.h"

namespace argosy::pipeline {

struct ImproveOptions {
  double memory_cap;
  double bound; // lower bound of the makespan
  std::uint64_t seed;
  std::int64_t tries;
  Deadline deadline; // ends the search early
};

// Simulated annealing: moves steps to other positions on their stage; accepts
// what is better or, in the beginning, slightly worse; returns the best found.
// Microbatches stay in order. `schedule` must be verified, have no whole
// backwards and fit the memory limit. The result also does, and is never
// slower.
Schedule improve(
    const Schedule& schedule,
    const PartCosts& costs,
    const ImproveOptions& options);

} // namespace argosy::pipeline
