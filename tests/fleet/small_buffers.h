#pragma once

#include "argosy/fleet/strategy.h"

namespace argosy::testing {

// Makes a small model fill several buffers, in whatever way it is sharded.
inline void use_small_buffers(fleet::DistributedStrategy& strategy) {
  if (!strategy.is_sharded()) {
    return;
  }
  if (strategy.sharding_configs.stage == 3) {
    strategy.sharding_configs.segment_size_KB = 1;
  } else {
    strategy.sharding_configs.comm_buffer_size_MB = 0.005;
  }
}

} // namespace argosy::testing
