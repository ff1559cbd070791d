#pragma once

#include <cstdint>

#include "argosy/common/deadline.h"
#include "argosy/pipeline/synthesis/greedy.h"

namespace argosy::pipeline {

struct TuneOptions {
  double memory_cap;
  std::uint64_t seed;
  std::int64_t tries;
  Deadline deadline; // ends the search early
};

// Searches for a better rule by changing one or two stages at a time; returns
// the best schedule. With many microbatches this finds more than moving single
// steps, because a rule moves all repetitions at once. Returns nullopt if no
// rule that was tried yields a schedule.
std::optional<Schedule> tune(
    const Schedule& shape,
    const PartCosts& costs,
    GreedyRule rule,
    const TuneOptions& options);

} // namespace argosy::pipeline
