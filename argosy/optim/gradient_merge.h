#pragma once

#include <torch/optim/optimizer.h>

#include <functional>

namespace argosy::optim {

struct GradientMergeOptions {
  int k_steps = 1;
  bool avg = true; // divide the sum by k_steps
};

// Lets an optimizer step once for every k_steps batches. The loop stays as it
// is, with the merge in the place of the optimizer:
//
//   merge.zero_grad(); loss(batch).backward(); merge.step();
//
// Gradients add up where they are, at no cost in memory: zero_grad() does
// nothing until the optimizer has stepped. It is no torch::optim::Optimizer,
// whose zero_grad() is not virtual: called through that type it would drop what
// was merged. `optimizer` must outlive it.
class GradientMerge {
 public:
  // Throws InvalidArgument when k_steps is below 1.
  GradientMerge(
      torch::optim::Optimizer& optimizer, GradientMergeOptions options);

  void zero_grad();

  // Returns whether the optimizer has stepped.
  bool step();

  // The same with `step_optimizer` in the place of the optimizer's step(), for
  // what has to happen around it: a GradScaler, clipping.
  bool step(const std::function<void()>& step_optimizer);

  // Whether the next step() is one of the optimizer: the backward pass before
  // it is the one whose gradients ranks must agree on.
  bool will_step() const { return merged_ + 1 == options_.k_steps; }

  // Whether gradients wait for others.
  bool is_merging() const { return merged_ > 0; }

  torch::optim::Optimizer& optimizer() { return optimizer_; }

 private:
  torch::optim::Optimizer& optimizer_;
  const GradientMergeOptions options_;
  int merged_ = 0;
};

} // namespace argosy::optim
