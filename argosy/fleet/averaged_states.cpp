#include "argosy/fleet/averaged_states.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/sgd.h>

#include <string>

#include "argosy/comm/coalesce.h"
#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/sgd.h"
#include "argosy/semi_auto/accumulators.h"

namespace argosy::fleet {

namespace {

using torch::optim::Optimizer;

bool is_sgd(const Optimizer& optimizer) {
  return dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr ||
      dynamic_cast<const optim::SGD*>(&optimizer) != nullptr;
}

void average(const Tensors& tensors, const GroupPtr& group) {
  static const OpLabel label("local SGD: average of the optimizers' moments");
  const LabelScope scope(label);
  all_reduce_coalesced(tensors, ReduceOp::AVG, group);
}

void average_fused(optim::FusedOptimizer& optimizer, const GroupPtr& group) {
  optim::StateDict states = optimizer.state_dict();
  Tensors tensors;
  std::size_t number = 0;
  for (const auto& each : optimizer.param_groups()) {
    const auto kinds = optimizer.state_kinds(each.options());
    for (const at::Tensor& parameter : each.params()) {
      for (const std::string& kind : kinds) {
        const auto found = states.find(str(number, '.', kind));
        tensors.push_back(
            found != states.end()
                ? found->second
                : at::zeros(
                      parameter.sizes(),
                      parameter.scalar_type() == at::kDouble ? at::kDouble
                                                             : at::kFloat));
      }
      ++number;
    }
  }
  average(tensors, group);
  // They are copies if the states are in a file.
  if (optimizer.has_state_store()) {
    optimizer.load_state_dict(states);
  }
}

void average_plain(Optimizer& optimizer, const GroupPtr& group) {
  Tensors tensors;
  for (const auto& each : optimizer.param_groups()) {
    for (const at::Tensor& parameter : each.params()) {
      const auto found =
          optimizer.state().find(semi_auto::state_key(parameter));
      const auto zeros = found == optimizer.state().end()
          ? semi_auto::new_state(each.options(), parameter)
          : nullptr;
      auto& state = zeros ? *zeros : *found->second;
      for (const auto& accumulator : semi_auto::accumulators_of(state)) {
        tensors.push_back(*accumulator.tensor);
      }
    }
  }
  average(tensors, group);
}

} // namespace

bool has_known_states(const Optimizer& optimizer) {
  return dynamic_cast<const optim::FusedOptimizer*>(&optimizer) != nullptr ||
      semi_auto::has_known_accumulators(optimizer);
}

void average_states(Optimizer& optimizer, const GroupPtr& group) {
  if (is_sgd(optimizer)) {
    return;
  }
  const at::NoGradGuard no_grad;
  if (auto* fused = dynamic_cast<optim::FusedOptimizer*>(&optimizer)) {
    average_fused(*fused, group);
  } else {
    average_plain(optimizer, group);
  }
}

} // namespace argosy::fleet
