#pragma once

#include <torch/optim/adam.h>

#include <tuple>

#include "argosy/optim/fused.h"

namespace argosy::optim {

// Defaults are those of Paddle's Lamb.
struct LambOptions
    : public torch::optim::OptimizerCloneableOptions<LambOptions> {
  using Betas = std::tuple<double, double>;

  LambOptions(double lr = 1e-3);

  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-6; // must be above 0
  TORCH_ARG(double, weight_decay) = 0.01;
  // If false, the trust ratio is 1.
  TORCH_ARG(bool, adapt) = true;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double rate) override { lr(rate); }
};

// Layer-wise adaptive moments (You et al. 2020), for large batches: with the
// bias-corrected averages m of the gradient and v of its square,
//
//   r = m / (sqrt(v) + eps) + decay * p,  p = p - lr * ratio * r
//
// where the trust ratio is |p| / |r| of the parameter, or 1 if either is 0. See
// FusedOptimizer. To exclude parameters from decay or adaptation, put them in a
// group of their own; see parameter_groups.h.
class Lamb final : public FusedOf<LambOptions, torch::optim::AdamParamState> {
 public:
  explicit Lamb(ParamGroups params, const LambOptions& defaults = {});

 private:
  StateTensors tensors_of(State& state, const Options& options) const override;
  bool measures(const torch::optim::OptimizerOptions&) const override {
    return true;
  }
  void measure(
      const torch::optim::OptimizerOptions& options,
      std::vector<Entry>& entries) override;
  void update(const Options& options, std::vector<Entry>& entries) override;
};

} // namespace argosy::optim
