#pragma once

#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {

// Throws InvalidArgument, saying what is wrong and where, unless the schedule
// is valid: every part runs one forward per microbatch and then one backward,
// whole or as inputs followed by weights, and no stage deadlocks waiting for a
// message that is sent only after a step that waits for that stage.
void verify(const Schedule& schedule);

} // namespace argosy::pipeline
