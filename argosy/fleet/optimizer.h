#pragma once

#include <memory>
#include <string>

namespace at {
class Tensor;
} // namespace at

namespace torch::optim {
class Optimizer;
} // namespace torch::optim

namespace argosy::optim {
class AdaptiveLocalSgd;
class Ema;
class GradScaler;
class LocalSgd;
} // namespace argosy::optim

namespace argosy::checkpoint {
class State;
} // namespace argosy::checkpoint

namespace argosy::fleet {

class Registry;
struct Axes;
struct DistributedStrategy;

// An optimizer that steps as a strategy says (gradient merge, clipping, loss
// scaling, averaging). Made by Fleet::distributed_optimizer():
//
//   optimizer.zero_grad();
//   optimizer.backward(criterion(model(x), y));
//   optimizer.step();
//
// All ranks call its methods alike. It is not a torch::optim::Optimizer: that
// class's zero_grad() is not virtual, and here zero_grad() must keep gradients
// that are still being accumulated.
class DistributedOptimizer {
 public:
  // `optimizer` must outlive this object.
  DistributedOptimizer(
      torch::optim::Optimizer& optimizer,
      const DistributedStrategy& strategy,
      const Axes& axes,
      std::shared_ptr<Registry> registry);
  ~DistributedOptimizer();
  DistributedOptimizer(DistributedOptimizer&&) noexcept;

  // Does nothing while gradient_merge accumulates gradients for a later step.
  void zero_grad();

  // Runs loss.backward(), on the scaled loss if amp is on. amp and
  // adaptive_localsgd require it; otherwise calling loss.backward() is
  // equivalent.
  void backward(const at::Tensor& loss);

  // For callers that run backward themselves: start it from scaled(loss), and
  // call after_backward(), with the unscaled loss of the batch, when it is
  // done.
  at::Tensor scaled(const at::Tensor& loss) const;
  void after_backward(const at::Tensor& loss);

  // Returns whether parameters changed. They do not while gradient_merge
  // accumulates, nor when amp skips a step with infinite or NaN gradients.
  // Throws InvalidArgument when amp or adaptive_localsgd is on and backward()
  // was not called.
  bool step();

  // backward() and step().
  bool minimize(const at::Tensor& loss) {
    backward(loss);
    return step();
  }

  // get_lr() reads the first parameter group; set_lr() changes all.
  double get_lr() const;
  void set_lr(double lr);

  // The optimizer that steps: the wrapped one or its replacement. Pass it to
  // learning rate schedulers.
  torch::optim::Optimizer& optimizer();

  // Null if amp is off; null if ema is off; null without local SGD.
  optim::GradScaler* scaler();
  optim::Ema* ema();
  optim::LocalSgd* local_sgd();
  optim::AdaptiveLocalSgd* adaptive_local_sgd();

  // With local SGD, averages the parameters now. Collective; blocks.
  void average();

  const DistributedStrategy& strategy() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// How checkpoint::State takes it: "optimizer", "scaler", "ema" and "local_sgd",
// and a note of the strategy. With a name, "<name>", "<name>_scaler" and so on.
void add_to(
    checkpoint::State& state,
    const std::string& name,
    DistributedOptimizer& optimizer);

} // namespace argosy::fleet
