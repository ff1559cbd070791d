#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "argosy/pipeline/part_costs.h"

namespace argosy::pipeline {

struct SynthesisInput {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;                 // per stage
  std::optional<PartOrder> order; // nullopt: try both
  PartCosts costs;                // of stages * chunks parts
  // The memory limit of a stage, in the unit of costs.memory; if that is empty,
  // in microbatches of its parts.
  double memory_cap = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 0;
  // Scales the number of tries: 1 takes about half a second; 0 returns the best
  // known or greedy schedule without a search.
  double effort = 1;
  double seconds = 1; // time limit of the search
};

// Searches for the schedule with the shortest makespan: takes the best of the
// known schedules and of those that greedy rules produce, then improves it step
// by step. Backwards of each part run in microbatch order. The result is
// verified, and never slower than a known schedule with the same number of
// chunks that fits the memory limit.
//
// Deterministic unless the time limit ends the search. So let one rank
// synthesize and send the result to the others (schedule_json.h).
//
// Throws InvalidArgument when no schedule fits the memory limit; the message
// has the smallest limit that would do.
Schedule synthesize(const SynthesisInput& input);

} // namespace argosy::pipeline
