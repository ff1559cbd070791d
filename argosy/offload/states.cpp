#include "argosy/offload/states.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/offload/tier.h"
#include "argosy/optim/fused.h"

namespace argosy::offload {

OffloadedStates::OffloadedStates(
    OffloadOptions options, std::int64_t buffer_bytes)
    : options_(std::move(options)), buffer_bytes_(buffer_bytes) {
  ARGOSY_CHECK(
      buffer_bytes > 0,
      "[offload.states] buffer_bytes {}, expected above 0",
      buffer_bytes);
}

OffloadedStates::~OffloadedStates() = default;

void OffloadedStates::make_buffers(const std::vector<std::int64_t>& bytes) {
  tier_ = std::make_unique<OffloadTier>(options_);
  slots_.clear();
  for (const std::int64_t each : bytes) {
    slots_.push_back(each > 0 ? tier_->add(each) : 0);
  }
}

at::Tensor OffloadedStates::fetch(std::size_t buffer) {
  return tier_->fetch(slots_[buffer]);
}

void OffloadedStates::put_back(std::size_t buffer, bool written) {
  tier_->put_back(slots_[buffer], written);
}

OffloadStats OffloadedStates::stats() const {
  return tier_ ? tier_->stats() : OffloadStats{};
}

std::shared_ptr<OffloadedStates> offload_states(
    optim::FusedOptimizer& optimizer,
    OffloadOptions options,
    std::int64_t buffer_bytes) {
  auto states =
      std::make_shared<OffloadedStates>(std::move(options), buffer_bytes);
  optimizer.set_state_store(states);
  return states;
}

std::vector<at::Tensor> pieces_of(
    const at::Tensor& flat, const at::Tensor& grad, std::int64_t numel) {
  ARGOSY_CHECK(
      flat.dim() == 1 && grad.sizes() == flat.sizes() && numel > 0,
      "[offload.pieces_of] {} with a gradient of {} in pieces of {}, expected "
      "one dim and pieces of at least 1",
      flat.sizes(),
      grad.sizes(),
      numel);
  std::vector<at::Tensor> pieces;
  for (std::int64_t at = 0; at < flat.numel(); at += numel) {
    const std::int64_t count = std::min(numel, flat.numel() - at);
    at::Tensor piece = flat.detach().narrow(0, at, count);
    piece.mutable_grad() = grad.detach().narrow(0, at, count);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

} // namespace argosy::offload
