#pragma once

#include <functional>
#include <string>
#include <vector>

#include "argosy/pipeline/schedule.h"

// What the schedules share.
namespace argosy::pipeline {

using Steps = std::vector<Step>;

// A schedule whose `steps` come from a function of the stage.
Schedule by_stage(
    Schedule shape, const std::function<Steps(int stage)>& steps_of);

// `ahead` forwards, then a forward and a backward in turn, then the backwards
// that are left. Both lists are of the same length.
Steps alternate(const Steps& forwards, const Steps& backwards, int ahead);

// One pass of one chunk for all microbatches, in order.
Steps all_microbatches(Pass pass, int microbatches, int chunk = 0);

} // namespace argosy::pipeline
