#pragma once

#include "argosy/pipeline/part_costs.h"

namespace argosy::pipeline {

// Splits whole backwards into halves. The schedule gets no slower, since the
// half that others wait for runs first.
Schedule halved(Schedule schedule);

// Joins halves into whole backwards where that slows nothing down: one call of
// the engine costs less than two.
Schedule joined(Schedule schedule, const PartCosts& costs);

} // namespace argosy::pipeline
