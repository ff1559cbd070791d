#include "argosy/optim/gradient_merge.h"

#include "argosy/common/error.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/gradients.h"

namespace argosy::optim {

GradientMerge::GradientMerge(
    torch::optim::Optimizer& optimizer, GradientMergeOptions options)
    : optimizer_(optimizer), options_(options) {
  ARGOSY_CHECK(
      options.k_steps >= 1,
      "[optim.gradient_merge] k_steps {}, expected >= 1",
      options.k_steps);
}

void GradientMerge::zero_grad() {
  if (merged_ > 0) {
    return;
  }
  if (auto* fused = dynamic_cast<FusedOptimizer*>(&optimizer_)) {
    fused->zero_grad();
  } else {
    optimizer_.zero_grad();
  }
}

bool GradientMerge::step() {
  return step([this] { optimizer_.step(); });
}

bool GradientMerge::step(const std::function<void()>& step_optimizer) {
  const bool steps = will_step();
  if (!steps) {
    ++merged_;
    return false;
  }
  if (options_.avg && options_.k_steps > 1) {
    for (auto& group : optimizer_.param_groups()) {
      scale_grads(group.params(), 1.0 / options_.k_steps);
    }
  }
  step_optimizer();
  merged_ = 0;
  return true;
}

} // namespace argosy::optim
