#pragma once

#include <vector>

#include "argosy/pipeline/timeline.h"

namespace argosy::pipeline {

// Returns the steps, last to first, that determine the makespan: each starts
// when the following one in the list ends. Only changes among them can shorten
// the schedule. `timeline` must be the finished timeline of `schedule`.
std::vector<StepRef> critical_path(
    const Schedule& schedule, const Timeline& timeline);

} // namespace argosy::pipeline
