#include "argosy/optim/lamb.h"

#include "argosy/optim/adam_numbers.h"
#include "argosy/optim/fused_of.h"

namespace argosy::optim {

namespace {

// A weight norm of 0 would stop the parameter from ever moving, and a direction
// of 0 cannot be divided by.
double trust_ratio(const Sums& squares) {
  const double weight = std::sqrt(squares[0]);
  const double direction = std::sqrt(squares[1]);
  return weight > 0 && direction > 0 ? weight / direction : 1;
}

LambStep lamb_step(
    const LambOptions& options, std::int64_t age, double grad_scale) {
  const auto [beta1, beta2] = options.betas();
  return {
      .grad_scale = grad_scale,
      .lr = options.lr(),
      .beta1 = beta1,
      .beta2 = beta2,
      .eps = options.eps(),
      .weight_decay = options.weight_decay(),
      .correction1 = bias_correction(beta1, age),
      .root_correction2 = std::sqrt(bias_correction(beta2, age))};
}

} // namespace

LambOptions::LambOptions(double lr) : lr_(lr) {}

void LambOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(adapt);
}

void LambOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, adapt);
}

Lamb::Lamb(ParamGroups params, const LambOptions& defaults)
    : FusedOf(std::move(params), defaults) {
  check_adam(defaults, "lamb");
  ARGOSY_CHECK(defaults.eps() > 0, "[optim.lamb] eps 0, expected above 0");
}

FusedOptimizer::StateTensors Lamb::tensors_of(
    State& state, const Options&) const {
  return {
      .tensors = {&state.exp_avg(), &state.exp_avg_sq()},
      .names = {"exp_avg", "exp_avg_sq"},
      .master = &state.master(),
      .step = &state.step()};
}

// The first pass: updates the averages.
void Lamb::measure(
    const torch::optim::OptimizerOptions& options,
    std::vector<Entry>& entries) {
  const auto& typed = static_cast<const Options&>(options);
  const auto steps = steps_by_age<State>(entries, [&](std::int64_t age) {
    return lamb_step(typed, age, grad_scale());
  });
  set_sums(entries, run(kernels().lamb_direction, spans_of(entries), steps));
}

// The second pass computes the direction again: to store it would take a buffer
// as large as the parameters.
void Lamb::update(const Options& options, std::vector<Entry>& entries) {
  auto steps = steps_of_age<State>(entries, [&](std::int64_t age) {
    return lamb_step(options, age, grad_scale());
  });
  for (std::size_t i = 0; options.adapt() && i < steps.size(); ++i) {
    steps[i].lr *= trust_ratio(entries[i].sums);
  }
  run(kernels().lamb_update, spans_of(entries), steps);
}

} // namespace argosy::optim
