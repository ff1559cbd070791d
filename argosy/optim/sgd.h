#pragma once

#include <torch/optim/sgd.h>

#include "argosy/optim/fused.h"

namespace argosy::optim {

using SGDOptions = torch::optim::SGDOptions;

// torch::optim::SGD, fused; see FusedOptimizer. Supports sparse gradients in
// groups without momentum and weight decay.
class SGD final : public FusedOf<SGDOptions, torch::optim::SGDParamState> {
 public:
  SGD(ParamGroups params, const SGDOptions& defaults);

 private:
  StateTensors tensors_of(State& state, const Options& options) const override;
  void update(const Options& options, std::vector<Entry>& entries) override;
  bool has_state(const torch::optim::OptimizerOptions& options) const override;
  void check_sparse(
      const torch::optim::OptimizerOptions& options) const override;
  void update_sparse(
      const torch::optim::OptimizerOptions& options, Entry& entry) override;
};

} // namespace argosy::optim
