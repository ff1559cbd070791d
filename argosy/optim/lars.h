#pragma once

#include <torch/optim/optimizer.h>

#include "argosy/optim/fused.h"

namespace argosy::optim {

// Defaults are those of lars_configs in Paddle's DistributedStrategy.
struct LarsOptions
    : public torch::optim::OptimizerCloneableOptions<LarsOptions> {
  LarsOptions(double lr = 0.1);

  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(double, lars_coeff) = 0.001; // trust coefficient
  TORCH_ARG(double, weight_decay) = 0.0005;
  TORCH_ARG(double, epsilon) = 0;
  // If false, the rate is lr, which makes it SGD with momentum.
  TORCH_ARG(bool, adapt) = true;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double rate) override { lr(rate); }
};

struct LarsParamState
    : public torch::optim::OptimizerCloneableParamState<LarsParamState> {
  TORCH_ARG(at::Tensor, momentum_buffer);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

// Layer-wise adaptive rate scaling (You et al. 2017), for large batches: with
// weight p, gradient g and momentum v of a parameter,
//
//   rate = lr * coeff * |p| / (|g| + decay * |p| + epsilon)
//   v = momentum * v + rate * (g + decay * p),  p = p - v
//
// and rate = lr if |p| or |g| is 0. See FusedOptimizer. To exclude parameters
// from decay or adaptation, put them in a group of their own; see
// parameter_groups.h.
class Lars final : public FusedOf<LarsOptions, LarsParamState> {
 public:
  explicit Lars(ParamGroups params, const LarsOptions& defaults = {});

 private:
  StateTensors tensors_of(State& state, const Options& options) const override;
  bool measures(const torch::optim::OptimizerOptions& options) const override {
    return static_cast<const Options&>(options).adapt();
  }
  void measure(
      const torch::optim::OptimizerOptions& options,
      std::vector<Entry>& entries) override;
  void update(const Options& options, std::vector<Entry>& entries) override;
};

} // namespace argosy::optim
