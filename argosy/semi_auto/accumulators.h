#pragma once

#include <memory>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::optim {
class Optimizer;
class OptimizerOptions;
class OptimizerParamState;
} // namespace torch::optim

// Not installed. The states that optimizers of torch keep for a parameter.
namespace argosy::semi_auto {

struct Accumulator {
  std::string name; // "exp_avg", as torch calls it
  at::Tensor* tensor;
};

// Those of a state of SGD, Adam, AdamW, Adagrad or RMSprop that exist; empty
// for other types.
std::vector<Accumulator> accumulators_of(
    torch::optim::OptimizerParamState& state);

// Whether accumulators_of() knows the optimizer's.
bool has_known_accumulators(const torch::optim::Optimizer& optimizer);

// Under which the optimizer keeps the state of a parameter.
std::string state_key(const at::Tensor& parameter);

// The state that the first step would begin with; null for SGD, whose first
// momentum is the gradient, and for optimizers that are not known.
std::unique_ptr<torch::optim::OptimizerParamState> new_state(
    const torch::optim::OptimizerOptions& options, const at::Tensor& parameter);

// Whether the optimizer has states of types that accumulators_of() does not
// know.
bool has_unknown_states(torch::optim::Optimizer& optimizer);

} // namespace argosy::semi_auto
