#include "argosy/optim/adam.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>

#include "argosy/common/error.h"
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

// The decay of Adam is a part of the gradient.
AdamStep step_of(
    const AdamOptions& options, std::int64_t age, double grad_scale) {
  AdamStep step = adam_step(options, age, grad_scale);
  step.weight_decay = options.weight_decay();
  return step;
}

// That of AdamW is decoupled from it, which is all that it does differently.
AdamStep step_of(
    const AdamWOptions& options, std::int64_t age, double grad_scale) {
  AdamStep step = adam_step(options, age, grad_scale);
  step.shrink = 1 - options.lr() * options.weight_decay();
  return step;
}

void check_lazy(const SparseMode& mode) {
  ARGOSY_CHECK(
      mode.lazy_mode,
      "[optim.step] a sparse gradient would change all rows, whose moments "
      "decay: set lazy_mode, as in Adam(params, options, "
      "{.lazy_mode = true}), to change only rows with a gradient; SGD without "
      "momentum and decay, and Adagrad without decay take sparse gradients "
      "as well");
}

// A step of the rows that have a gradient, as the kernels compute it.
template <typename State, typename Options>
void step_rows(const Options& options, double grad_scale, Entry& entry) {
  auto& state = entry.state_as<State>();
  state.step(state.step() + 1);
  const AdamStep step = step_of(options, state.step(), grad_scale);
  const at::Tensor grad = entry.grad->coalesce();
  c10::List<c10::optional<at::Tensor>> rows;
  for (const at::Tensor& indices : grad._indices().unbind()) {
    rows.push_back(indices);
  }
  const at::Tensor before = entry.param->index(rows);
  const at::Tensor slope =
      (grad._values() * step.grad_scale).add_(before, step.weight_decay);
  const at::Tensor mean =
      state.exp_avg().index(rows).mul_(step.beta1).add_(slope, 1 - step.beta1);
  at::Tensor square = state.exp_avg_sq()
                          .index(rows)
                          .mul_(step.beta2)
                          .addcmul_(slope, slope, 1 - step.beta2);
  state.exp_avg().index_put_(rows, mean);
  state.exp_avg_sq().index_put_(rows, square);
  if (options.amsgrad()) {
    square = at::maximum(state.max_exp_avg_sq().index(rows), square);
    state.max_exp_avg_sq().index_put_(rows, square);
  }
  const at::Tensor root =
      square.sqrt().div_(step.root_correction2).add_(step.eps);
  entry.param->index_put_(
      rows, (before * step.shrink).addcdiv_(mean, root, -step.step_size));
}

void run_adam(
    bool amsgrad,
    const std::vector<Entry>& entries,
    const std::vector<AdamStep>& steps) {
  run(amsgrad ? kernels().amsgrad : kernels().adam, spans_of(entries), steps);
}

} // namespace

Adam::Adam(ParamGroups params, const AdamOptions& defaults, SparseMode sparse)
    : FusedOf(std::move(params), defaults), sparse_(sparse) {
  check_adam(defaults, "adam");
}

FusedOptimizer::StateTensors Adam::tensors_of(
    State& state, const Options& options) const {
  return adam_tensors<StateTensors>(state, options);
}

void Adam::update(const Options& options, std::vector<Entry>& entries) {
  const auto steps = steps_by_age<State>(entries, [&](std::int64_t age) {
    return step_of(options, age, grad_scale());
  });
  run_adam(options.amsgrad(), entries, steps);
}

void Adam::check_sparse(const torch::optim::OptimizerOptions&) const {
  check_lazy(sparse_);
}

void Adam::update_sparse(
    const torch::optim::OptimizerOptions& options, Entry& entry) {
  step_rows<State>(static_cast<const Options&>(options), grad_scale(), entry);
}

AdamW::AdamW(
    ParamGroups params, const AdamWOptions& defaults, SparseMode sparse)
    : FusedOf(std::move(params), defaults), sparse_(sparse) {
  check_adam(defaults, "adamw");
}

FusedOptimizer::StateTensors AdamW::tensors_of(
    State& state, const Options& options) const {
  return adam_tensors<StateTensors>(state, options);
}

void AdamW::update(const Options& options, std::vector<Entry>& entries) {
  const auto steps = steps_by_age<State>(entries, [&](std::int64_t age) {
    return step_of(options, age, grad_scale());
  });
  run_adam(options.amsgrad(), entries, steps);
}

void AdamW::check_sparse(const torch::optim::OptimizerOptions&) const {
  check_lazy(sparse_);
}

void AdamW::update_sparse(
    const torch::optim::OptimizerOptions& options, Entry& entry) {
  step_rows<State>(static_cast<const Options&>(options), grad_scale(), entry);
}

} // namespace argosy::optim
