#include "argosy/semi_auto/accumulators.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>

namespace argosy::semi_auto {

namespace {

using namespace torch::optim; // NOLINT

// Adam's and AdamW's have the same members and no common type.
template <typename State>
std::vector<Accumulator> moments_of(State& state) {
  return {
      {"exp_avg", &state.exp_avg()},
      {"exp_avg_sq", &state.exp_avg_sq()},
      {"max_exp_avg_sq", &state.max_exp_avg_sq()}};
}

template <typename State, typename Options>
std::unique_ptr<OptimizerParamState> new_moments(
    const Options& options, const at::Tensor& parameter) {
  auto state = std::make_unique<State>();
  state->step(0);
  state->exp_avg(at::zeros_like(parameter));
  state->exp_avg_sq(at::zeros_like(parameter));
  if (options.amsgrad()) {
    state->max_exp_avg_sq(at::zeros_like(parameter));
  }
  return state;
}

std::unique_ptr<OptimizerParamState> new_rmsprop(
    const RMSpropOptions& options, const at::Tensor& parameter) {
  auto state = std::make_unique<RMSpropParamState>();
  state->step(0);
  state->square_avg(at::zeros_like(parameter));
  if (options.momentum() > 0) {
    state->momentum_buffer(at::zeros_like(parameter));
  }
  if (options.centered()) {
    state->grad_avg(at::zeros_like(parameter));
  }
  return state;
}

std::vector<Accumulator> all_of(OptimizerParamState& state) {
  if (auto* sgd = dynamic_cast<SGDParamState*>(&state)) {
    return {{"momentum_buffer", &sgd->momentum_buffer()}};
  }
  if (auto* adam = dynamic_cast<AdamParamState*>(&state)) {
    return moments_of(*adam);
  }
  if (auto* adamw = dynamic_cast<AdamWParamState*>(&state)) {
    return moments_of(*adamw);
  }
  if (auto* adagrad = dynamic_cast<AdagradParamState*>(&state)) {
    return {{"sum", &adagrad->sum()}};
  }
  if (auto* rmsprop = dynamic_cast<RMSpropParamState*>(&state)) {
    return {
        {"square_avg", &rmsprop->square_avg()},
        {"momentum_buffer", &rmsprop->momentum_buffer()},
        {"grad_avg", &rmsprop->grad_avg()}};
  }
  return {};
}

} // namespace

std::vector<Accumulator> accumulators_of(OptimizerParamState& state) {
  std::vector<Accumulator> all = all_of(state);
  std::erase_if(
      all, [](const Accumulator& each) { return !each.tensor->defined(); });
  return all;
}

bool has_known_accumulators(const Optimizer& optimizer) {
  return dynamic_cast<const SGD*>(&optimizer) != nullptr ||
      dynamic_cast<const Adam*>(&optimizer) != nullptr ||
      dynamic_cast<const AdamW*>(&optimizer) != nullptr ||
      dynamic_cast<const Adagrad*>(&optimizer) != nullptr ||
      dynamic_cast<const RMSprop*>(&optimizer) != nullptr;
}

std::string state_key(const at::Tensor& parameter) {
  return c10::guts::to_string(parameter.unsafeGetTensorImpl());
}

std::unique_ptr<OptimizerParamState> new_state(
    const OptimizerOptions& options, const at::Tensor& parameter) {
  if (const auto* adam = dynamic_cast<const AdamOptions*>(&options)) {
    return new_moments<AdamParamState>(*adam, parameter);
  }
  if (const auto* adamw = dynamic_cast<const AdamWOptions*>(&options)) {
    return new_moments<AdamWParamState>(*adamw, parameter);
  }
  if (const auto* adagrad = dynamic_cast<const AdagradOptions*>(&options)) {
    auto state = std::make_unique<AdagradParamState>();
    state->step(0);
    state->sum(at::full_like(parameter, adagrad->initial_accumulator_value()));
    return state;
  }
  if (const auto* rmsprop = dynamic_cast<const RMSpropOptions*>(&options)) {
    return new_rmsprop(*rmsprop, parameter);
  }
  return nullptr;
}

bool has_unknown_states(Optimizer& optimizer) {
  return std::ranges::any_of(optimizer.state(), [](const auto& each) {
    return all_of(*each.second).empty();
  });
}

} // namespace argosy::semi_auto
