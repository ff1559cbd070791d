#pragma once

#include <limits>

#include "argosy/comm/ops.h"
#include "argosy/pipeline/synthesize.h"

namespace argosy::pipeline {

class PipelineParallel;

// What the parts of all stages took in the last batch, on the average. All
// stages call it. A schedule whose backwards are not in halves does not tell
// how long each takes: they count as equal.
Costs measured_costs(PipelineParallel& pipeline);

// A schedule for those costs: the fastest that is found with which no stage
// keeps more microbatches of its parts than `memory_cap`.
//
//   pipeline.forward_backward(inputs, labels); // by "zbh1", say
//   pipeline.set_schedule(synthesize_measured(pipeline));
//
// All ranks call it, of `group` or, when it is null, of the world: the first
// one's pipeline decides, so that pipelines side by side do the same.
Schedule synthesize_measured(
    PipelineParallel& pipeline,
    double memory_cap = std::numeric_limits<double>::infinity(),
    const GroupPtr& group = nullptr);

} // namespace argosy::pipeline
