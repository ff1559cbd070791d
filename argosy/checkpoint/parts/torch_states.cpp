#include "argosy/checkpoint/parts/torch_states.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace argosy::checkpoint {

namespace {

using torch::optim::OptimizerParamState;

// Calls f(name, tensor) for all tensors of a state. The order is that of
// LibTorch's classes.
template <typename F>
void for_each_tensor(torch::optim::SGDParamState& state, const F& f) {
  f("momentum_buffer", state.momentum_buffer());
}

template <typename F>
void for_each_tensor(torch::optim::AdagradParamState& state, const F& f) {
  f("sum", state.sum());
}

template <typename F>
void for_each_tensor(torch::optim::RMSpropParamState& state, const F& f) {
  f("square_avg", state.square_avg());
  f("momentum_buffer", state.momentum_buffer());
  f("grad_avg", state.grad_avg());
}

template <typename F>
void for_each_adam_tensor(auto& state, const F& f) {
  f("exp_avg", state.exp_avg());
  f("exp_avg_sq", state.exp_avg_sq());
  f("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <typename F>
void for_each_tensor(torch::optim::AdamParamState& state, const F& f) {
  for_each_adam_tensor(state, f);
}

template <typename F>
void for_each_tensor(torch::optim::AdamWParamState& state, const F& f) {
  for_each_adam_tensor(state, f);
}

template <typename State>
constexpr bool has_step = requires(State& state) {
  state.step();
};

template <typename State>
ParameterState read_state(OptimizerParamState& any) {
  auto& state = static_cast<State&>(any);
  ParameterState read;
  for_each_tensor(state, [&](const char* name, const at::Tensor& tensor) {
    if (tensor.defined()) {
      read.tensors.emplace_back(name, tensor);
    }
  });
  if constexpr (has_step<State>) {
    read.step = state.step();
  }
  return read;
}

template <typename State>
std::unique_ptr<OptimizerParamState> make_state(const ParameterState& values) {
  auto state = std::make_unique<State>();
  for_each_tensor(*state, [&](const char* name, at::Tensor& tensor) {
    for (const auto& [its_name, value] : values.tensors) {
      if (its_name == name) {
        tensor = value;
      }
    }
  });
  if constexpr (has_step<State>) {
    state->step(values.step.value_or(0));
  }
  return state;
}

template <typename State>
StateKind make_kind() {
  StateKind kind{
      .has_step = has_step<State>,
      .read = &read_state<State>,
      .make = &make_state<State>};
  State state;
  for_each_tensor(state, [&](const char* name, const at::Tensor&) {
    kind.tensors.emplace_back(name);
  });
  return kind;
}

template <typename Optimizer, typename State>
const StateKind* kind_if(const torch::optim::Optimizer& optimizer) {
  static const StateKind kind = make_kind<State>();
  return dynamic_cast<const Optimizer*>(&optimizer) != nullptr ? &kind
                                                               : nullptr;
}

} // namespace

const StateKind* kind_of(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;
  for (const StateKind* kind :
       {kind_if<SGD, SGDParamState>(optimizer),
        kind_if<Adam, AdamParamState>(optimizer),
        kind_if<AdamW, AdamWParamState>(optimizer),
        kind_if<Adagrad, AdagradParamState>(optimizer),
        kind_if<RMSprop, RMSpropParamState>(optimizer)}) {
    if (kind != nullptr) {
      return kind;
    }
  }
  return nullptr;
}

} // namespace argosy::checkpoint
