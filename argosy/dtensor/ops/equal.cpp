// Whether two tensors are equal, for the program that asks: each rank compares
// its parts.

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

#include "argosy/dtensor/ops/axes.h"
#include "argosy/dtensor/ops/families.h"

namespace argosy::dtensor {

namespace {

std::vector<Strategy> equal(const OpCall& call) {
  std::vector<Strategy> strategies;
  if (call.shape(0) != call.shape(1)) {
    Strategy strategy = call.strategy(); // the shapes say it
    strategy.inputs = {call.current(0), call.current(1)};
    return {strategy};
  }
  for (std::size_t dim = 0; dim < call.shape(0).size(); ++dim) {
    Strategy strategy = call.strategy();
    strategy.inputs.assign(2, Shard(static_cast<int>(dim)));
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

void run_equal(LocalCall& call) {
  if (call.original("self").toTensor().sizes() !=
      call.original("other").toTensor().sizes()) {
    call.finish(false);
    return;
  }
  const auto axes = axes_that_cut(call, "self", [](int) { return true; });
  call.run();
  const at::Tensor all =
      at::scalar_tensor(call.result().toBool() ? 1 : 0, at::kInt);
  reduce_over(call, axes, all, comm::ReduceOp::MIN);
  call.result() = all.item<int>() == 1;
}

} // namespace

void add_equal_rules(RuleTable& table) {
  table.add("equal", {.strategies = equal, .run = run_equal});
}

} // namespace argosy::dtensor
