#include "argosy/optim/sgd.h"

#include "argosy/common/error.h"
#include "argosy/optim/fused_of.h"

namespace argosy::optim {

namespace {

const SGDOptions& sgd_options(const torch::optim::OptimizerOptions& options) {
  return static_cast<const SGDOptions&>(options);
}

} // namespace

SGD::SGD(ParamGroups params, const SGDOptions& defaults)
    : FusedOf(std::move(params), defaults) {
  ARGOSY_CHECK(
      defaults.lr() >= 0 && defaults.momentum() >= 0 &&
          defaults.weight_decay() >= 0,
      "[optim.sgd] lr {}, momentum {}, weight_decay {}, expected none below 0",
      defaults.lr(),
      defaults.momentum(),
      defaults.weight_decay());
  ARGOSY_CHECK(
      !defaults.nesterov() ||
          (defaults.momentum() > 0 && defaults.dampening() == 0),
      "[optim.sgd] nesterov needs a momentum above 0 and no dampening");
}

FusedOptimizer::StateTensors SGD::tensors_of(
    State& state, const Options& options) const {
  StateTensors result{.master = &state.master()};
  if (options.momentum() != 0) {
    result.tensors[0] = &state.momentum_buffer();
    result.names[0] = "momentum_buffer";
  }
  return result;
}

void SGD::update(const Options& options, std::vector<Entry>& entries) {
  std::vector<SgdStep> steps;
  steps.reserve(entries.size());
  for (const Entry& entry : entries) {
    steps.push_back(
        {.grad_scale = grad_scale(),
         .lr = options.lr(),
         .momentum = options.momentum(),
         .undampened = 1 - options.dampening(),
         .weight_decay = options.weight_decay(),
         .nesterov = options.nesterov(),
         .first = entry.fresh});
  }
  const bool plain = options.momentum() == 0;
  run(plain ? kernels().sgd : kernels().momentum, spans_of(entries), steps);
}

bool SGD::has_state(const torch::optim::OptimizerOptions& options) const {
  return sgd_options(options).momentum() != 0;
}

void SGD::check_sparse(const torch::optim::OptimizerOptions& options) const {
  // Both would change elements that the sparse gradient does not have.
  if (sgd_options(options).momentum() != 0 ||
      sgd_options(options).weight_decay() != 0) {
    FusedOptimizer::check_sparse(options);
  }
}

void SGD::update_sparse(
    const torch::optim::OptimizerOptions& options, Entry& entry) {
  entry.param->add_(*entry.grad, -sgd_options(options).lr() * grad_scale());
}

} // namespace argosy::optim
