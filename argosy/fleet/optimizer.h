#pragma once

#include <memory>

#include "argosy/comm/ops.h"

namespace torch::optim {
class Optimizer;
} // namespace torch::optim

namespace argosy::optim {
class Ema;
class GradScaler;
} // namespace argosy::optim

namespace argosy::fleet {

class Pairs;
struct Axes;
struct DistributedStrategy;

// An optimizer that steps as a strategy says:
//
//   optimizer.zero_grad();
//   optimizer.backward(criterion(model(x), y));
//   optimizer.step();
//
// All ranks call it alike. No torch::optim::Optimizer, whose zero_grad() is not
// virtual: gradients that wait for others must stay. Made by
// distributed_optimizer().
class DistributedOptimizer {
 public:
  // `optimizer` must outlive it.
  DistributedOptimizer(
      torch::optim::Optimizer& optimizer,
      const DistributedStrategy& strategy,
      const Axes& axes,
      std::shared_ptr<Pairs> pairs);
  ~DistributedOptimizer();
  DistributedOptimizer(DistributedOptimizer&&) noexcept;

  // Nothing while gradient_merge gathers gradients.
  void zero_grad();

  // loss.backward(), of the scaled loss with amp. amp and adaptive_localsgd
  // need it; without them the loss's own will do.
  void backward(const at::Tensor& loss);

  // For those who run backward themselves: what it starts from, for a loss; and
  // word that it is done, with the loss of the batch.
  at::Tensor scaled(const at::Tensor& loss) const;
  void after_backward(const at::Tensor& loss);

  // Returns whether parameters have changed: not while gradients are merged,
  // nor when amp leaves out a step that is not finite. Throws InvalidArgument
  // when a switch needed backward() above and it was not called.
  bool step();

  // Both.
  bool minimize(const at::Tensor& loss) {
    backward(loss);
    return step();
  }

  // Of the first group, and of all.
  double get_lr() const;
  void set_lr(double lr);

  // What steps: the optimizer, or what took its place. Has the groups, and is
  // what schedulers take.
  torch::optim::Optimizer& optimizer();

  // Null without amp, without ema.
  optim::GradScaler* scaler();
  optim::Ema* ema();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

} // namespace argosy::fleet
