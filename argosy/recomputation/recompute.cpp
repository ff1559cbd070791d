#include "argosy/recomputation/recompute.h"

#include <ATen/core/grad_mode.h>

#include "argosy/recomputation/frame.h"

namespace argosy::recomputation {

bool is_recording() {
  return at::GradMode::is_enabled();
}

RecomputeScope::RecomputeScope(
    const RecomputeOptions& options,
    const std::vector<at::Tensor>& inputs,
    Replay replay)
    : frame_(std::make_shared<Frame>(options, inputs, std::move(replay))),
      state_(frame_->state().first_run()),
      scope_(std::make_unique<torch_hooks::SavedTensorScope>(*frame_)) {}

RecomputeScope::~RecomputeScope() = default;

} // namespace argosy::recomputation
