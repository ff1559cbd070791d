// Ops that reduce dims. A shard of a dim that stays goes through; one of a dim
// that is reduced leaves a Partial, where parts can be reduced further.

#include <optional>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/reduced_dims.h"

namespace argosy::dtensor {

namespace {

using comm::ReduceOp;

std::vector<Strategy> sum(const OpCall& call) {
  auto strategies = reduction(call, ReduceOp::SUM, false);
  add_passing(strategies, call, {ReduceOp::SUM, ReduceOp::AVG});
  return strategies;
}

// A NaN is left out of a part, but makes the whole NaN.
std::vector<Strategy> nansum(const OpCall& call) {
  return reduction(call, ReduceOp::SUM, false);
}

std::vector<Strategy> product_reduction(const OpCall& call) {
  return reduction(call, ReduceOp::PROD, false);
}

// An empty shard has no maximum.
std::vector<Strategy> extremum(const OpCall& call, ReduceOp op) {
  auto strategies = reduction(call, op, false);
  std::erase_if(strategies, [&](const Strategy& each) {
    return each.outputs[0].is_partial() &&
        may_leave_empty_parts(
               call, 0, static_cast<std::size_t>(each.inputs[0].dim()));
  });
  add_passing(strategies, call, {op});
  return strategies;
}

std::vector<Strategy> maximum(const OpCall& call) {
  return extremum(call, ReduceOp::MAX);
}

std::vector<Strategy> minimum(const OpCall& call) {
  return extremum(call, ReduceOp::MIN);
}

// On Bools, MAX is "or" and MIN is "and"; empty parts are what adds nothing.
std::vector<Strategy> any(const OpCall& call) {
  return reduction(call, ReduceOp::MAX, false);
}

std::vector<Strategy> all(const OpCall& call) {
  return reduction(call, ReduceOp::MIN, false);
}

// Parts of a reduced dim do not add up to the whole.
std::vector<Strategy> whole_dims(const OpCall& call) {
  return reduction(call, std::nullopt, false);
}

} // namespace

void add_reduction_rules(RuleTable& table) {
  table.add("sum", {.strategies = sum});
  table.add(
      "nansum count_nonzero", {.strategies = nansum, .shapes = reduced_shape});
  table.add("prod", {.strategies = product_reduction});
  table.add("amax max", {.strategies = maximum, .shapes = reduced_shape});
  table.add("amin min", {.strategies = minimum, .shapes = reduced_shape});
  table.add("any", {.strategies = any});
  table.add("all", {.strategies = all});
  table.add(
      "kthvalue median.dim mode nanmedian.dim std std_mean var var_mean",
      {.strategies = whole_dims, .shapes = reduced_shape});
  table.add("median nanmedian", {});
}

} // namespace argosy::dtensor
