#pragma once

#include <limits>

#include "argosy/comm/ops.h"
#include "argosy/pipeline/synthesize.h"

namespace argosy::pipeline {

class PipelineParallel;

// Returns the mean times of all parts in the last batch. All stages call it;
// blocks. If the schedule does not split backward, both halves are assumed to
// take the same time.
PartCosts measured_costs(PipelineParallel& pipeline);

// Synthesizes a schedule for the measured costs: the fastest found with which
// no stage keeps more than `memory_cap` microbatches of its parts.
//
//   pipeline.forward_backward(inputs, labels); // by "zbh1", say
//   pipeline.set_schedule(synthesize_measured(pipeline));
//
// All ranks of `group` (null: of the world) call it; blocks. The first rank's
// pipeline decides, so that data parallel pipelines use the same schedule.
Schedule synthesize_measured(
    PipelineParallel& pipeline,
    double memory_cap = std::numeric_limits<double>::infinity(),
    const GroupPtr& group = nullptr);

} // namespace argosy::pipeline
