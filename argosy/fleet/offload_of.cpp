#include "argosy/fleet/offload_of.h"

#include "argosy/fleet/strategy.h"

namespace argosy::fleet {

std::optional<offload::OffloadOptions> offload_of(
    const DistributedStrategy& strategy) {
  const auto& configs = strategy.sharding_configs;
  if (!strategy.is_sharded() || !configs.offload) {
    return std::nullopt;
  }
  return offload::OffloadOptions{
      .offload_path = configs.offload_path,
      .offload_cpu_size =
          static_cast<std::int64_t>(configs.offload_cpu_size_MB * (1 << 20))};
}

} // namespace argosy::fleet
