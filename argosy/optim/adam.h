#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include "argosy/optim/fused.h"

namespace argosy::optim {

using AdamOptions = torch::optim::AdamOptions;
using AdamWOptions = torch::optim::AdamWOptions;

// torch::optim::Adam, fused; see FusedOptimizer.
class Adam final : public FusedOf<AdamOptions, torch::optim::AdamParamState> {
 public:
  explicit Adam(ParamGroups params, const AdamOptions& defaults = {});

 private:
  StateTensors tensors_of(State& state, const Options& options) const override;
  void update(const Options& options, std::vector<Entry>& entries) override;
};

// torch::optim::AdamW, fused.
class AdamW final
    : public FusedOf<AdamWOptions, torch::optim::AdamWParamState> {
 public:
  explicit AdamW(ParamGroups params, const AdamWOptions& defaults = {});

 private:
  StateTensors tensors_of(State& state, const Options& options) const override;
  void update(const Options& options, std::vector<Entry>& entries) override;
};

} // namespace argosy::optim
