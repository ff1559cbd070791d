#pragma once

#include "argosy/pipeline/costs.h"

namespace argosy::pipeline {

// Whole backwards as their halves, which takes no longer: what others wait for
// comes first.
Schedule halved(Schedule schedule);

// The other way where it makes nothing slower: a whole backward is one call.
Schedule joined(Schedule schedule, const Costs& costs);

} // namespace argosy::pipeline
