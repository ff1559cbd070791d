#pragma once

#include "argosy/pipeline/costs.h"

// What no schedule of a shape (one without steps) gets below.
namespace argosy::pipeline {

// Of memory: room for one microbatch in all parts of a stage. It is enough, for
// one microbatch after the other.
double least_cap(const Schedule& shape, const Costs& costs);

// Of time: no stage ends before the first microbatch reached it and its own
// work is done. A little more, since sums of times differ with their order.
double least_makespan(const Schedule& shape, const Costs& costs);

} // namespace argosy::pipeline
