#pragma once

#include <torch/optim/optimizer.h>

#include <functional>

namespace argosy::optim {

struct GradientMergeOptions {
  int k_steps = 1;
  bool avg = true; // divide the sum by k_steps
};

// Steps an optimizer once for every k_steps batches. Use it in place of the
// optimizer:
//
//   merge.zero_grad(); loss(batch).backward(); merge.step();
//
// Gradients accumulate in place, without extra memory: zero_grad() does nothing
// until the optimizer has stepped. It does not derive from
// torch::optim::Optimizer, because zero_grad() is not virtual there and would
// drop the merged gradients. `optimizer` must outlive it.
class GradientMerge {
 public:
  // Throws InvalidArgument if k_steps is below 1.
  GradientMerge(
      torch::optim::Optimizer& optimizer, GradientMergeOptions options);

  void zero_grad();

  // Returns whether the optimizer has stepped.
  bool step();

  // Calls `step_optimizer` instead of the optimizer's step(), for example to
  // clip gradients or to use a GradScaler.
  bool step(const std::function<void()>& step_optimizer);

  // Whether the next step() steps the optimizer. If so, the backward before it
  // must reduce the gradients over the ranks.
  bool will_step() const { return merged_ + 1 == options_.k_steps; }

  // Whether gradients have accumulated since the optimizer stepped.
  bool is_merging() const { return merged_ > 0; }

  torch::optim::Optimizer& optimizer() { return optimizer_; }

 private:
  torch::optim::Optimizer& optimizer_;
  const GradientMergeOptions options_;
  int merged_ = 0;
};

} // namespace argosy::optim
