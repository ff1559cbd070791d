#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <vector>

#include "argosy/optim/spans.h"

namespace argosy::optim {

// One parameter in one step. Points to what its group and autograd hold, which
// counting references to would take longer than small updates.
struct Entry {
  const at::Tensor* param = nullptr; // what this rank has of it
  const at::Tensor* whole = nullptr; // the same, or a DTensor
  const at::Tensor* grad = nullptr;
  at::Tensor reordered;  // the gradient in the parameter's order, if it was not
  std::size_t index = 0; // in the group
  torch::optim::OptimizerParamState* state = nullptr;
  bool fresh = false; // the state was made for this step
  Span span{};        // nothing for sparse gradients

  template <typename State>
  State& state_as() {
    return static_cast<State&>(*state);
  }
};

// Steps for entries, from one state and whether it is new. Parameters that are
// as old as the one before have the same step.
template <typename State, typename Make>
auto steps_by_age(std::vector<Entry>& entries, const Make& make) {
  std::vector<decltype(make(std::int64_t{}))> steps;
  steps.reserve(entries.size());
  std::int64_t age = 0;
  for (Entry& entry : entries) {
    auto& state = entry.state_as<State>();
    state.step(state.step() + 1);
    if (steps.empty() || state.step() != age) {
      age = state.step();
      steps.push_back(make(age));
    } else {
      steps.push_back(steps.back());
    }
  }
  return steps;
}

std::vector<Span> spans_of(const std::vector<Entry>& entries);

// Sums of parameters of which ranks have different parts become those of the
// whole.
void add_over_parts(const std::vector<Entry>& entries, std::vector<Sums>& sums);

} // namespace argosy::optim
