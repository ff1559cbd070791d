#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <vector>

#include "argosy/optim/spans.h"

namespace argosy::optim {

// One parameter in one step. Holds pointers, because counting references would
// take longer than small updates.
struct Entry {
  const at::Tensor* param = nullptr; // this rank's part of it
  const at::Tensor* whole = nullptr; // the same tensor, or the DTensor
  const at::Tensor* grad = nullptr;
  at::Tensor reordered;  // the gradient in the parameter's order, if it was not
  std::size_t index = 0; // in the group
  torch::optim::OptimizerParamState* state = nullptr;
  bool fresh = false; // the state is new in this step
  Span span{};        // empty for sparse gradients

  template <typename State>
  State& state_as() {
    return static_cast<State&>(*state);
  }
};

// Increments the step count of each entry and returns make(count) for each.
// Calls `make` once for consecutive entries with equal counts.
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

// Collective for DTensors: adds the sums of parameters that are sharded over
// ranks, so that each rank has those of the whole parameter.
void add_over_parts(const std::vector<Entry>& entries, std::vector<Sums>& sums);

} // namespace argosy::optim
