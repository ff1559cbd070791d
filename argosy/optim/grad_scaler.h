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
  bool enable = true; // without, scale(), step() and update() pass through
  double init_loss_scaling = 65536;
  double incr_ratio = 2;
  double decr_ratio = 0.5;
  int incr_every_n_steps = 2000;   // in a row that were finite
  int decr_every_n_nan_or_inf = 1; // in a row that were not
  bool use_dynamic_loss_scaling = true;
};

// Multiplies the loss, so that small gradients do not vanish in 16 bits, and
// leaves out steps whose gradients are not finite:
//
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // or unscale_, clip, step
//   scaler.update();
//
// With a group, all members leave out a step when one of them must, and so keep
// the same scale: all call unscale_() or step() equally often. Several
// optimizers may step before an update(). A FusedOptimizer undoes the scale as
// it reads the gradients, in float32; other optimizers get gradients that were
// divided in place.
class GradScaler {
 public:
  // Throws InvalidArgument for a scale or ratio that makes no sense.
  explicit GradScaler(
      GradScalerOptions options = {}, std::shared_ptr<Group> group = nullptr);

  // Whose members leave steps out together; null: this rank alone.
  void set_group(std::shared_ptr<Group> group) { group_ = std::move(group); }

  at::Tensor scale(const at::Tensor& loss) const;

  // Divides the gradients now, for those who look at them before step().
  // Throws InvalidArgument when called twice before step().
  void unscale_(torch::optim::Optimizer& optimizer);

  // Steps unless a gradient of any rank is not finite; returns whether it did.
  bool step(torch::optim::Optimizer& optimizer);

  // Adapts the scale after a step.
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

// What becomes of the state after a step.
GradScaler::State next_state(
    const GradScalerOptions& options, GradScaler::State state, bool found_inf);

} // namespace argosy::optim
