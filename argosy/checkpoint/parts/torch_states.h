#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The state that optimizers of torch::optim keep for a parameter, by name: the
// names that PyTorch gives them. Not installed.
namespace argosy::checkpoint {

struct ParameterState {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::optional<std::int64_t> step;
};

// How an optimizer of torch's names and makes states.
struct StateKind {
  std::vector<std::string> tensors; // all that there may be
  bool has_step = false;
  ParameterState (*read)(torch::optim::OptimizerParamState& state) = nullptr;
  std::unique_ptr<torch::optim::OptimizerParamState> (*make)(
      const ParameterState& state) = nullptr;
};

// Null for an optimizer that is not one of SGD, Adam, AdamW, Adagrad, RMSprop.
const StateKind* kind_of(const torch::optim::Optimizer& optimizer);

} // namespace argosy::checkpoint
