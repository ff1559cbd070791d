#include "argosy/optim/adagrad.h"

#include <ATen/ops/sparse_coo_tensor.h>

#include "argosy/common/error.h"
#include "argosy/optim/fused_of.h"

namespace argosy::optim {

namespace {

const AdagradOptions& adagrad_options(
    const torch::optim::OptimizerOptions& options) {
  return static_cast<const AdagradOptions&>(options);
}

double decayed_lr(const AdagradOptions& options, std::int64_t age) {
  const auto before = static_cast<double>(age - 1);
  return options.lr() / (1 + before * options.lr_decay());
}

} // namespace

Adagrad::Adagrad(ParamGroups params, const AdagradOptions& defaults)
    : FusedOf(std::move(params), defaults) {
  ARGOSY_CHECK(
      defaults.lr() >= 0 && defaults.lr_decay() >= 0 &&
          defaults.weight_decay() >= 0 && defaults.eps() >= 0 &&
          defaults.initial_accumulator_value() >= 0,
      "[optim.adagrad] lr {}, lr_decay {}, weight_decay {}, eps {}, "
      "initial_accumulator_value {}, expected none below 0",
      defaults.lr(),
      defaults.lr_decay(),
      defaults.weight_decay(),
      defaults.eps(),
      defaults.initial_accumulator_value());
}

FusedOptimizer::StateTensors Adagrad::tensors_of(
    State& state, const Options&) const {
  // torch uses the defaults here, not the options of the group.
  const double initial =
      adagrad_options(defaults()).initial_accumulator_value();
  return {
      .tensors = {&state.sum()},
      .names = {"sum"},
      .master = &state.master(),
      .step = &state.step(),
      .initial = initial};
}

void Adagrad::update(const Options& options, std::vector<Entry>& entries) {
  const auto steps = steps_by_age<State>(entries, [&](std::int64_t age) {
    return AdagradStep{
        .grad_scale = grad_scale(),
        .lr = decayed_lr(options, age),
        .weight_decay = options.weight_decay(),
        .eps = options.eps()};
  });
  run(kernels().adagrad, spans_of(entries), steps);
}

void Adagrad::check_sparse(
    const torch::optim::OptimizerOptions& options) const {
  if (adagrad_options(options).weight_decay() != 0) {
    FusedOptimizer::check_sparse(options);
  }
}

// Only the rows that have a gradient are read and written.
void Adagrad::update_sparse(
    const torch::optim::OptimizerOptions& options, Entry& entry) {
  auto& state = entry.state_as<State>();
  state.step(state.step() + 1);
  const at::Tensor grad = entry.grad->coalesce();
  const at::Tensor values = grad._values() * grad_scale();
  const auto like_grad = [&](const at::Tensor& with) {
    return at::sparse_coo_tensor(grad._indices(), with, grad.sizes());
  };
  state.sum().add_(like_grad(values * values));
  const at::Tensor sums = state.sum().sparse_mask(grad)._values();
  const at::Tensor direction =
      values / (sums.sqrt() + adagrad_options(options).eps());
  entry.param->add_(
      like_grad(direction),
      -decayed_lr(adagrad_options(options), state.step()));
}

} // namespace argosy::optim
