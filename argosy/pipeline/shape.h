#pragma once

#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {

// Throws InvalidArgument unless a schedule has 1 or more stages, microbatches
// and chunks, and not so many of them that nobody could count its steps.
void check_shape(const Schedule& schedule);

} // namespace argosy::pipeline
