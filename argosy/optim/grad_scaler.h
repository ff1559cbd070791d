#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace argosy {
class Group;
}

namespace argosy::optim {

class FusedOptimizer;

// Names and defaults of Paddle's GradScaler.
struct GradScalerOptions {
  bool enable = true; // if false, scale(), step() and update() pass through
  double init_loss_scaling = 65536;
  double incr_ratio = 2;
  double decr_ratio = 0.5;
  int incr_every_n_steps = 2000;   // consecutive finite steps
  int decr_every_n_nan_or_inf = 1; // consecutive steps that were not finite
  bool use_dynamic_loss_scaling = true;
};

// Multiplies the loss, so that small gradients do not vanish in 16 bits, and
// skips steps whose gradients are not finite:
//
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // or unscale_, clip, step
//   scaler.update();
//
// With a group, all ranks skip a step if one of them must, and so keep the same
// scale: unscale_() and step() are then collective and block. Several
// optimizers may step before one update(). A FusedOptimizer undoes the scale
// while reading the gradients, in float32; for other optimizers the gradients
// are divided in place. Not thread-safe.
class GradScaler {
 public:
  // Throws InvalidArgument for scales and ratios out of range.
  explicit GradScaler(
      GradScalerOptions options = {}, std::shared_ptr<Group> group = nullptr);

  // The ranks that skip steps together. Null: this rank alone.
  void set_group(std::shared_ptr<Group> group) { group_ = std::move(group); }

  at::Tensor scale(const at::Tensor& loss) const;

  // Divides the gradients now. Call it before step() to clip or inspect them.
  // Throws InvalidArgument if called twice before step().
  void unscale_(torch::optim::Optimizer& optimizer);

  // Steps unless a gradient on any rank of the group is not finite. Returns
  // whether it stepped.
  bool step(torch::optim::Optimizer& optimizer);

  // Adapts the scale. Call it after the steps of all optimizers.
  void update();

  double loss_scaling() const { return state_.scale; }
  bool found_inf() const { return found_inf_; } // since the last update()

  // For checkpoints.
  struct State {
    double scale = 1;
    int num_good = 0; // in a row
    int num_bad = 0;

    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  bool find_inf(const std::vector<at::Tensor>& params);

  GradScalerOptions options_;
  std::shared_ptr<Group> group_;
  State state_;
  bool found_inf_ = false;
  // Optimizers that wait for step(), and whether they have to skip it.
  std::map<const torch::optim::Optimizer*, bool> unscaled_;
};

// The state after a step in which non-finite gradients were found or not. Pure.
GradScaler::State next_state(
    const GradScalerOptions& options, GradScaler::State state, bool found_inf);

} // namespace argosy::optim
