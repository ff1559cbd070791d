#include "argosy/optim/grad_scaler.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "argosy/comm/operation/label.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/parameter_groups.h"

namespace argosy::optim {

namespace {

void check(const GradScalerOptions& options) {
  ARGOSY_CHECK(
      options.init_loss_scaling > 0,
      "[optim.grad_scaler] init_loss_scaling {}, expected above 0",
      options.init_loss_scaling);
  ARGOSY_CHECK(
      options.incr_ratio > 1 && options.decr_ratio > 0 &&
          options.decr_ratio < 1,
      "[optim.grad_scaler] incr_ratio {} and decr_ratio {}, expected above 1 "
      "and in (0, 1)",
      options.incr_ratio,
      options.decr_ratio);
  ARGOSY_CHECK(
      options.incr_every_n_steps >= 1 && options.decr_every_n_nan_or_inf >= 1,
      "[optim.grad_scaler] incr_every_n_steps {} and decr_every_n_nan_or_inf "
      "{}, expected >= 1",
      options.incr_every_n_steps,
      options.decr_every_n_nan_or_inf);
}

// Makes the optimizer undo the scale while it reads gradients, in addition to
// the scale that the user has set.
class ScaledStep {
 public:
  ScaledStep(FusedOptimizer& optimizer, double factor)
      : optimizer_(optimizer), before_(optimizer.grad_scale()) {
    optimizer_.set_grad_scale(before_ * factor);
  }
  ~ScaledStep() { optimizer_.set_grad_scale(before_); }

 private:
  FusedOptimizer& optimizer_;
  const double before_;
};

} // namespace

GradScaler::GradScaler(GradScalerOptions options, std::shared_ptr<Group> group)
    : options_(options),
      group_(std::move(group)),
      state_{.scale = options.enable ? options.init_loss_scaling : 1} {
  check(options_);
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return options_.enable ? loss.mul(state_.scale) : loss;
}

// Collective if there is a group: whether a gradient of any rank is not finite.
bool GradScaler::find_inf(const std::vector<at::Tensor>& params) {
  // One pass over the memory: any infinity or NaN makes the sum so.
  bool found = !std::isfinite(squared_grad_norm(params));
  if (group_) {
    const at::Tensor any = at::full({1}, found ? 1 : 0, c10::kInt);
    // All ranks must skip the step or none: otherwise replicas would differ.
    static const OpLabel label("overflow of scaled gradients");
    const LabelScope scope(label);
    all_reduce(any, ReduceOp::MAX, group_);
    found = any.item<int>() != 0;
  }
  found_inf_ = found_inf_ || found;
  return found;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enable) {
    return;
  }
  ARGOSY_CHECK(
      unscaled_.count(&optimizer) == 0,
      "[optim.grad_scaler] unscale_() twice before step()");
  const std::vector<at::Tensor> params = params_of(optimizer);
  // Infinities and NaNs survive the scaling, so one check afterwards is enough.
  scale_grads(params, 1 / state_.scale);
  unscaled_[&optimizer] = find_inf(params);
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!options_.enable) {
    optimizer.step();
    return true;
  }
  auto* fused = dynamic_cast<FusedOptimizer*>(&optimizer);
  // Fused kernels multiply gradients while they read them, which saves a pass
  // over the gradients.
  if (fused != nullptr && unscaled_.count(fused) == 0) {
    if (find_inf(params_of(optimizer))) {
      return false;
    }
    const ScaledStep scaled(*fused, 1 / state_.scale);
    fused->step();
    return true;
  }
  if (unscaled_.count(&optimizer) == 0) {
    unscale_(optimizer);
  }
  const bool skips = unscaled_.at(&optimizer);
  unscaled_.erase(&optimizer);
  if (!skips) {
    optimizer.step();
  }
  return !skips;
}

// Paddle's rule: a run of bad steps shrinks the scale, a run of good steps
// grows it, and each kind resets the count of the other. A pure function, so
// that all ranks, which see the same found_inf, keep the same scale.
GradScaler::State next_state(
    const GradScalerOptions& options, GradScaler::State state, bool found_inf) {
  if (found_inf) {
    state.num_good = 0;
    if (++state.num_bad == options.decr_every_n_nan_or_inf) {
      state.num_bad = 0;
      // Below 1 the scale would push gradients towards underflow.
      state.scale = std::max(1.0, state.scale * options.decr_ratio);
    }
    return state;
  }
  state.num_bad = 0;
  if (++state.num_good == options.incr_every_n_steps) {
    state.num_good = 0;
    // A scale that float32 cannot hold would make the loss infinite.
    const double larger = state.scale * options.incr_ratio;
    state.scale =
        std::isfinite(static_cast<float>(larger)) ? larger : state.scale;
  }
  return state;
}

void GradScaler::update() {
  if (options_.enable && options_.use_dynamic_loss_scaling) {
    state_ = next_state(options_, state_, found_inf_);
  }
  found_inf_ = false;
  unscaled_.clear();
}

} // namespace argosy::optim
