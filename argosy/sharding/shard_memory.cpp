#include "argosy/sharding/shard_memory.h"

#include <ATen/ops/zeros.h>

#include "argosy/offload/tier.h"

namespace argosy::sharding {

namespace {

offload::OffloadOptions mapped(offload::OffloadOptions options) {
  options.io = offload::OffloadIo::Mapped; // so that a shard keeps its address
  return options;
}

} // namespace

ShardMemory::ShardMemory(const std::optional<offload::OffloadOptions>& offload)
    : tier_(
          offload ? std::make_unique<offload::OffloadTier>(mapped(*offload))
                  : nullptr) {}

ShardMemory::~ShardMemory() = default;

at::Tensor ShardMemory::make(std::int64_t count, c10::ScalarType type) {
  if (!tier_ || count == 0) {
    return at::zeros({count}, type);
  }
  const auto bytes = count * static_cast<std::int64_t>(c10::elementSize(type));
  const std::size_t number = tier_->add(bytes);
  const at::Tensor part = tier_->fetch(number).view(type);
  // The address identifies a shard: callers hold aliases of the tensor.
  slots_[part.data_ptr()] = {.number = number};
  return part;
}

void ShardMemory::need(const at::Tensor& part) {
  const auto found = slots_.find(part.data_ptr());
  if (found != slots_.end() && !found->second.is_here) {
    tier_->fetch(found->second.number); // to the same address
    found->second.is_here = true;
  }
}

void ShardMemory::let_go(const at::Tensor& part, bool written) {
  const auto found = slots_.find(part.data_ptr());
  if (found != slots_.end() && (found->second.is_here || written)) {
    need(part);
    tier_->put_back(found->second.number, written);
    found->second.is_here = false;
  }
}

} // namespace argosy::sharding
