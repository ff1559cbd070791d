#pragma once

#include "argosy/pipeline/part_costs.h"

// Lower bounds for all schedules of a shape (a schedule without steps).
namespace argosy::pipeline {

// Memory: one microbatch in all parts of a stage. It suffices for running one
// microbatch after the other.
double least_cap(const Schedule& shape, const PartCosts& costs);

// Time: a stage cannot end before the first microbatch has reached it and its
// own work is done. Slightly raised, since sums of times depend on their
// order.
double least_makespan(const Schedule& shape, const PartCosts& costs);

} // namespace argosy::pipeline
