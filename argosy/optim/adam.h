#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include "argosy/optim/fused.h"

namespace argosy::optim {

using AdamOptions = torch::optim::AdamOptions;
using AdamWOptions = torch::optim::AdamWOptions;

// How Adam and AdamW take sparse gradients, such as those of an embedding.
struct SparseMode {
  // Change only the rows that have a gradient: moments of other rows do not
  // decay, and rows without a gradient do not move, as in Paddle's lazy_mode
  // and PyTorch's SparseAdam. False: sparse gradients are refused.
  bool lazy_mode = false;
};

// torch::optim::Adam, fused; see FusedOptimizer.
class Adam final : public FusedOf<AdamOptions, torch::optim::AdamParamState> {
 public:
  explicit Adam(
      ParamGroups params,
      const AdamOptions& defaults = {},
      SparseMode sparse = {});

 private:
  StateTensors tensors_of(State& state, const Options& options) const override;
  void update(const Options& options, std::vector<Entry>& entries) override;
  void check_sparse(
      const torch::optim::OptimizerOptions& options) const override;
  void update_sparse(
      const torch::optim::OptimizerOptions& options, Entry& entry) override;

  const SparseMode sparse_;
};

// torch::optim::AdamW, fused.
class AdamW final
    : public FusedOf<AdamWOptions, torch::optim::AdamWParamState> {
 public:
  explicit AdamW(
      ParamGroups params,
      const AdamWOptions& defaults = {},
      SparseMode sparse = {});

 private:
  StateTensors tensors_of(State& state, const Options& options) const override;
  void update(const Options& options, std::vector<Entry>& entries) override;
  void check_sparse(
      const torch::optim::OptimizerOptions& options) const override;
  void update_sparse(
      const torch::optim::OptimizerOptions& options, Entry& entry) override;

  const SparseMode sparse_;
};

} // namespace argosy::optim
