#pragma once

#include <cstdint>

#include "argosy/common/deadline.h"
#include "argosy/pipeline/costs.h"

namespace argosy::pipeline {

struct ImproveOptions {
  double memory_cap;
  double bound; // a makespan that none can be below
  std::uint64_t seed;
  std::int64_t tries;
  Deadline deadline; // ends then even when tries are left
};

// The best schedule that a random walk finds: it moves steps to other places
// of their stage, and keeps what is better or, in the beginning, little worse.
// Microbatches stay in order. `schedule` is verified, has no whole backwards
// and fits the cap; so does the result, which is never slower.
Schedule improve(
    const Schedule& schedule,
    const Costs& costs,
    const ImproveOptions& options);

} // namespace argosy::pipeline
