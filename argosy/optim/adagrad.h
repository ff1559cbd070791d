#pragma once

#include <torch/optim/adagrad.h>

#include "argosy/optim/fused.h"

namespace argosy::optim {

using AdagradOptions = torch::optim::AdagradOptions;

// torch::optim::Adagrad, fused; see FusedOptimizer. Supports sparse gradients
// in groups without weight decay.
class Adagrad final
    : public FusedOf<AdagradOptions, torch::optim::AdagradParamState> {
 public:
  explicit Adagrad(ParamGroups params, const AdagradOptions& defaults = {});

 private:
  StateTensors tensors_of(State& state, const Options& options) const override;
  void update(const Options& options, std::vector<Entry>& entries) override;
  void check_sparse(
      const torch::optim::OptimizerOptions& options) const override;
  void update_sparse(
      const torch::optim::OptimizerOptions& options, Entry& entry) override;
};

} // namespace argosy::optim
