#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <vector>

#include "argosy/optim/parts.h"
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
  Sums sums{};        // of optimizers that measure()

  template <typename State>
  State& state_as() {
    return static_cast<State&>(*state);
  }
};

// Returns make(step count) for each entry. Calls `make` once for consecutive
// entries with equal counts.
template <typename State, typename Make>
auto steps_of_age(std::vector<Entry>& entries, const Make& make) {
  std::vector<decltype(make(std::int64_t{}))> steps;
  steps.reserve(entries.size());
  std::int64_t age = 0;
  for (Entry& entry : entries) {
    auto& state = entry.state_as<State>();
    if (steps.empty() || state.step() != age) {
      age = state.step();
      steps.push_back(make(age));
    } else {
      steps.push_back(steps.back());
    }
  }
  return steps;
}

// The same, after incrementing the step count of each entry.
template <typename State, typename Make>
auto steps_by_age(std::vector<Entry>& entries, const Make& make) {
  for (Entry& entry : entries) {
    auto& state = entry.state_as<State>();
    state.step(state.step() + 1);
  }
  return steps_of_age<State>(entries, make);
}

std::vector<Span> spans_of(const std::vector<Entry>& entries);

// Tells autograd that the parameters are about to change.
void note_writes(const std::vector<Entry>& entries);

// Puts the sums of a kernel into the entries.
void set_sums(std::vector<Entry>& entries, const std::vector<Sums>& sums);

// Collective where ranks hold parts of parameters: replaces the sums of this
// rank's parts by those of the whole parameters. `part_sums` may be null.
void add_over_parts(std::vector<Entry>& entries, PartSums* part_sums);

} // namespace argosy::optim
