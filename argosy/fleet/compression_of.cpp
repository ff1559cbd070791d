#include "argosy/fleet/compression_of.h"

#include "argosy/data_parallel/compression.h"
#include "argosy/fleet/strategy.h"

namespace argosy::fleet {

std::optional<c10::ScalarType> sent_type_of(
    const DistributedStrategy& strategy) {
  if (strategy.fp16_allreduce) {
    return c10::kHalf;
  }
  return strategy.bf16_allreduce ? std::optional(c10::kBFloat16) : std::nullopt;
}

std::shared_ptr<data_parallel::BucketHook> power_sgd_of(
    const DistributedStrategy& strategy) {
  return strategy.power_sgd
      ? power_sgd(
            {.rank = strategy.power_sgd_configs.rank,
             .start_step = strategy.power_sgd_configs.start_step,
             .min_compression = strategy.power_sgd_configs.min_compression})
      : nullptr;
}

bool has_main_grads(const DistributedStrategy& strategy) {
  return strategy.amp && strategy.amp_configs.use_main_grad;
}

} // namespace argosy::fleet
