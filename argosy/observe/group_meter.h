#pragma once

#include <memory>

#include "argosy/observe/step_meter.h"

namespace argosy {
class Group;
}

namespace argosy::observe {

// One small all_gather in the group.
GatherStats gather_stats_in(const std::shared_ptr<Group>& group = nullptr);

// A meter of the calling thread's rank that reports all members of the group
// together. All members must make it, and make the same calls. The exchanges
// are collectives of the group: where members may run out of data at different
// steps while the others communicate in the backward pass, give
// exchange = false, and each rank reports its own numbers.
std::unique_ptr<StepMeter> make_step_meter(
    StepMeterOptions options = {},
    const std::shared_ptr<Group>& group = nullptr,
    bool exchange = true);

} // namespace argosy::observe
