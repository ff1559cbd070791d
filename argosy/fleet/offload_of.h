#pragma once

#include <optional>

#include "argosy/offload/options.h"

namespace argosy::fleet {

struct DistributedStrategy;

// Where sharding_configs keeps the state of the optimizer; nullopt: in memory.
// Not installed.
std::optional<offload::OffloadOptions> offload_of(
    const DistributedStrategy& strategy);

} // namespace argosy::fleet
