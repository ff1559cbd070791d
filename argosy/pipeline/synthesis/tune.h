#pragma once

#include <cstdint>

#include "argosy/common/deadline.h"
#include "argosy/pipeline/synthesis/greedy.h"

namespace argosy::pipeline {

struct TuneOptions {
  double memory_cap;
  std::uint64_t seed;
  std::int64_t tries;
  Deadline deadline; // ends then even when tries are left
};

// The best schedule that changes of `rule` lead to, one stage or two at a time.
// For many microbatches it finds more than moves of single steps: one change
// of a rule moves all that repeat. None when no rule that was tried leads to a
// schedule.
std::optional<Schedule> tune(
    const Schedule& shape,
    const Costs& costs,
    GreedyRule rule,
    const TuneOptions& options);

} // namespace argosy::pipeline
