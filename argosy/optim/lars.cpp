#include "argosy/optim/lars.h"

#include <cmath>

#include "argosy/common/error.h"
#include "argosy/optim/fused_of.h"

namespace argosy::optim {

namespace {

double local_lr(const LarsOptions& options, const Sums& squares) {
  const double weight = std::sqrt(squares[0]);
  const double grad = std::sqrt(squares[1]);
  // A weight norm of 0 would stop the parameter from ever moving.
  if (!options.adapt() || weight == 0 || grad == 0) {
    return options.lr();
  }
  return options.lr() * options.lars_coeff() * weight /
      (grad + options.weight_decay() * weight + options.epsilon());
}

} // namespace

LarsOptions::LarsOptions(double lr) : lr_(lr) {}

void LarsOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lars_coeff);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(epsilon);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(adapt);
}

void LarsOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lars_coeff);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, epsilon);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, adapt);
}

void LarsParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum_buffer);
}

void LarsParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(at::Tensor, momentum_buffer);
}

Lars::Lars(ParamGroups params, const LarsOptions& defaults)
    : FusedOf(std::move(params), defaults) {
  ARGOSY_CHECK(
      defaults.lr() >= 0 && defaults.momentum() >= 0 &&
          defaults.lars_coeff() >= 0 && defaults.weight_decay() >= 0 &&
          defaults.epsilon() >= 0,
      "[optim.lars] an option is negative, expected all >= 0");
}

FusedOptimizer::StateTensors Lars::tensors_of(
    State& state, const Options&) const {
  return {
      .tensors = {&state.momentum_buffer()},
      .names = {"momentum_buffer"},
      .master = &state.master()};
}

void Lars::measure(
    const torch::optim::OptimizerOptions&, std::vector<Entry>& entries) {
  set_sums(
      entries, run(kernels().norms, spans_of(entries), NormStep{grad_scale()}));
}

void Lars::update(const Options& options, std::vector<Entry>& entries) {
  std::vector<LarsStep> steps;
  steps.reserve(entries.size());
  for (const Entry& entry : entries) {
    steps.push_back(
        {.grad_scale = grad_scale(),
         .lr = local_lr(options, entry.sums),
         .momentum = options.momentum(),
         .weight_decay = options.weight_decay()});
  }
  run(kernels().lars, spans_of(entries), steps);
}

} // namespace argosy::optim
