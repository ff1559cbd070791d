#pragma once

#include <functional>
#include <vector>

#include "argosy/pipeline/schedule.h"

// Helpers of the schedules.
namespace argosy::pipeline {

using Steps = std::vector<Step>;

// Fills in the steps of `shape` by calling a function for each stage.
Schedule by_stage(
    Schedule shape, const std::function<Steps(int stage)>& steps_of);

// Returns `ahead` forwards, then forwards and backwards in turn, then the
// remaining backwards. Both lists have the same length.
Steps alternate(const Steps& forwards, const Steps& backwards, int ahead);

// One pass of one chunk for all microbatches, in order.
Steps all_microbatches(Pass pass, int microbatches, int chunk = 0);

} // namespace argosy::pipeline
