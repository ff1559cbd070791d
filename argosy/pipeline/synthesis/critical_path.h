#pragma once

#include <vector>

#include "argosy/pipeline/replay.h"

namespace argosy::pipeline {

// Steps, from the last to the first, none of which could begin before the next
// of the list was done: only a change among them makes the whole shorter.
// `played` is the replay of the schedule, and finished.
std::vector<Place> critical_path(
    const Schedule& schedule, const Replay& played);

} // namespace argosy::pipeline
