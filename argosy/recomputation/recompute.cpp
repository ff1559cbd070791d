#include "argosy/recomputation/recompute.h"

#include <ATen/core/grad_mode.h>

#include "argosy/recomputation/recomputed_call.h"

namespace argosy::recomputation {

bool is_recording() {
  return at::GradMode::is_enabled();
}

RecomputeScope::RecomputeScope(
    const RecomputeOptions& options,
    const std::vector<at::Tensor>& inputs,
    Replay replay)
    : call_(
          std::make_shared<RecomputedCall>(options, inputs, std::move(replay))),
      state_(call_->state().first_run()),
      scope_(std::make_unique<torch_hooks::SavedTensorScope>(*call_)) {}

RecomputeScope::~RecomputeScope() = default;

} // namespace argosy::recomputation
