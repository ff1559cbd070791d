#pragma once

#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {

// Throws InvalidArgument, which says what is wrong where, unless every part
// has one forward for each microbatch, and after it one backward, whole or of
// inputs and then of weights, and all stages reach their ends: no stage waits
// for a message that is only sent after a step which waits for that stage.
void verify(const Schedule& schedule);

} // namespace argosy::pipeline
