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

void Lamb::update(const Options& options, std::vector<Entry>& entries) {
  const auto [beta1, beta2] = options.betas();
  auto steps = steps_by_age<State>(
      entries, [&, b1 = beta1, b2 = beta2](std::int64_t age) {
        return LambStep{
            .grad_scale = grad_scale(),
            .lr = options.lr(),
            .beta1 = b1,
            .beta2 = b2,
            .eps = options.eps(),
            .weight_decay = options.weight_decay(),
            .correction1 = bias_correction(b1, age),
            .root_correction2 = std::sqrt(bias_correction(b2, age))};
      });
  const std::vector<Span> spans = spans_of(entries);
  // The second pass computes the direction again: to store it would take a
  // buffer as large as the parameters.
  auto squares = run(kernels().lamb_direction, spans, steps);
  // The norms are those of whole parameters, also where a DTensor is sharded.
  add_over_parts(entries, squares);
  for (std::size_t i = 0; options.adapt() && i < steps.size(); ++i) {
    steps[i].lr *= trust_ratio(squares[i]);
  }
  run(kernels().lamb_update, spans, steps);
}

} // namespace argosy::optim
