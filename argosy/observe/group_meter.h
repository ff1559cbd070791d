#pragma once

#include <memory>

#include "argosy/comm/ops.h"
#include "argosy/observe/step_meter.h"

namespace argosy::observe {

// One small all_gather in the group.
Exchange exchange_in(const GroupPtr& group = nullptr);

// A meter of the calling thread's rank that reports all members of the group
// together. All members must make it, and make the same calls. The exchanges
// are collectives of the group: where members may run out of data at different
// steps while the others communicate in the backward pass, give
// exchange = false, and each rank reports its own numbers.
std::unique_ptr<StepMeter> make_step_meter(
    StepMeterOptions options = {},
    const GroupPtr& group = nullptr,
    bool exchange = true);

} // namespace argosy::observe
