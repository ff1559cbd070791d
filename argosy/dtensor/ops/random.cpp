// Random ops that fill a tensor: each element is drawn by its place in the
// whole, so that it is the same however the tensor is sharded.

#include <ATen/core/Tensor.h>

#include <limits>

#include "argosy/common/error.h"
#include "argosy/dtensor/dispatch/decision_cache.h"
#include "argosy/dtensor/mesh_state.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/random_fill.h"

namespace argosy::dtensor {

namespace {

// As it is; of a Partial the whole is drawn.
std::vector<Strategy> in_place(const OpCall& call) {
  if (call.current(0).is_partial()) {
    return {};
  }
  return {call.strategy(call.current(0), call.current(0))};
}

void fill(LocalCall& call, const Distribution& distribution) {
  ARGOSY_CHECK(
      call.argument("generator").isNone(),
      "[dtensor.random] a generator is given; DTensors draw from the numbers "
      "that dtensor_manual_seed() starts");
  const at::Tensor local = call.argument("self").toTensor();
  const auto global = call.original("self").toTensor().sizes();
  const Placements& placements = call.decision().inputs[0].placements;
  fill_random(
      local,
      global.vec(),
      call.mesh().local_box(global, placements),
      call.mesh().random().draw(),
      distribution);
  call.finish(local);
}

double number(LocalCall& call, std::string_view name) {
  return call.argument(name).toScalar().toDouble();
}

void run_uniform(LocalCall& call) {
  fill(call, uniform(number(call, "from"), number(call, "to")));
}

void run_normal(LocalCall& call) {
  fill(call, normal(number(call, "mean"), number(call, "std")));
}

void run_bernoulli(LocalCall& call) {
  fill(call, bernoulli(number(call, "p")));
}

void run_integers_below(LocalCall& call) {
  fill(call, integers(0, call.argument("to").toInt()));
}

void run_integers_between(LocalCall& call) {
  fill(
      call,
      integers(
          call.argument("from").toInt(),
          call.argument("to").isNone() ? std::numeric_limits<int>::max()
                                       : call.argument("to").toInt()));
}

} // namespace

void add_random_rules(RuleTable& table) {
  table.add({"uniform_"}, {.strategies = in_place, .run = run_uniform});
  table.add({"normal_"}, {.strategies = in_place, .run = run_normal});
  table.add(
      {"bernoulli_.float"}, {.strategies = in_place, .run = run_bernoulli});
  table.add(
      {"random_.to"}, {.strategies = in_place, .run = run_integers_below});
  table.add(
      {"random_.from"}, {.strategies = in_place, .run = run_integers_between});
}

} // namespace argosy::dtensor
