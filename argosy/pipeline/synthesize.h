#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "argosy/pipeline/costs.h"

namespace argosy::pipeline {

struct SynthesisInput {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;                 // of each stage
  std::optional<PartOrder> order; // none: the better of both
  Costs costs;                    // of stages * chunks parts, as measured
  // What a stage may keep, in the unit of costs.memory; in microbatches of its
  // parts when that is empty.
  double memory_cap = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 0;
  // How much the search tries: 1 takes about half a second; 0: it does not
  // search, and takes the best known or greedy one.
  double effort = 1;
  double seconds = 1; // it ends then whatever is left to try
};

// Searches for the schedule with the shortest makespan: takes the best of the
// known ones and of those that greedy rules lead to, and changes it step by
// step. Backwards of each part are in the order of microbatches. Never slower
// than a known schedule of as many chunks that fits the cap. Verified.
//
// The same input leads to the same schedule unless the time runs out; so one
// rank synthesises, and the others are told (see schedule_json.h).
//
// Throws InvalidArgument when no schedule fits the cap, and says the least that
// one does.
Schedule synthesize(const SynthesisInput& input);

} // namespace argosy::pipeline
