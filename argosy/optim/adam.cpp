#include "argosy/optim/adam.h"

#include "argosy/optim/adam_numbers.h"
#include "argosy/optim/fused_of.h"

namespace argosy::optim {

namespace {

template <typename Tensors, typename State, typename Options>
Tensors adam_tensors(State& state, const Options& options) {
  Tensors result{
      .tensors = {&state.exp_avg(), &state.exp_avg_sq()},
      .names = {"exp_avg", "exp_avg_sq"},
      .master = &state.master(),
      .step = &state.step()};
  if (options.amsgrad()) {
    result.tensors[2] = &state.max_exp_avg_sq();
    result.names[2] = "max_exp_avg_sq";
  }
  return result;
}

template <typename Options>
AdamStep adam_step(const Options& options, std::int64_t age, double scale) {
  const auto [beta1, beta2] = options.betas();
  return {
      .grad_scale = scale,
      .beta1 = beta1,
      .beta2 = beta2,
      .eps = options.eps(),
      .step_size = options.lr() / bias_correction(beta1, age),
      .root_correction2 = std::sqrt(bias_correction(beta2, age))};
}

void run_adam(
    bool amsgrad,
    const std::vector<Entry>& entries,
    const std::vector<AdamStep>& steps) {
  run(amsgrad ? kernels().amsgrad : kernels().adam, spans_of(entries), steps);
}

} // namespace

Adam::Adam(ParamGroups params, const AdamOptions& defaults)
    : FusedOf(std::move(params), defaults) {
  check_adam(defaults, "adam");
}

FusedOptimizer::StateTensors Adam::tensors_of(
    State& state, const Options& options) const {
  return adam_tensors<StateTensors>(state, options);
}

void Adam::update(const Options& options, std::vector<Entry>& entries) {
  const auto steps = steps_by_age<State>(entries, [&](std::int64_t age) {
    AdamStep step = adam_step(options, age, grad_scale());
    step.weight_decay = options.weight_decay();
    return step;
  });
  run_adam(options.amsgrad(), entries, steps);
}

AdamW::AdamW(ParamGroups params, const AdamWOptions& defaults)
    : FusedOf(std::move(params), defaults) {
  check_adam(defaults, "adamw");
}

FusedOptimizer::StateTensors AdamW::tensors_of(
    State& state, const Options& options) const {
  return adam_tensors<StateTensors>(state, options);
}

void AdamW::update(const Options& options, std::vector<Entry>& entries) {
  const auto steps = steps_by_age<State>(entries, [&](std::int64_t age) {
    AdamStep step = adam_step(options, age, grad_scale());
    // Decoupled decay, which is all that AdamW does differently from Adam.
    step.shrink = 1 - options.lr() * options.weight_decay();
    return step;
  });
  run_adam(options.amsgrad(), entries, steps);
}

} // namespace argosy::optim
