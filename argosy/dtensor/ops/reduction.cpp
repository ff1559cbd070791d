// Ops that reduce dims. A shard of a dim that stays goes through; one of a dim
// that is reduced leaves a Partial, where parts can be reduced further.

#include <algorithm>
#include <optional>

#include "argosy/dtensor/ops/families.h"

namespace argosy::dtensor {

namespace {

using comm::ReduceOp;

struct Dims {
  std::vector<bool> reduced; // of the input's dims
  bool keep = false;

  // Where a dim of the input is in the output.
  int out(std::size_t dim) const {
    const auto before = std::count(
        reduced.begin(),
        reduced.begin() + static_cast<std::ptrdiff_t>(dim),
        true);
    return static_cast<int>(
        keep ? dim : dim - static_cast<std::size_t>(before));
  }
};

// No dims named: all are reduced.
Dims dims_of(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  const Shape named = call.integers("dim");
  Dims dims{
      std::vector<bool>(ndim, named.empty()), call.flag("keepdim", false)};
  for (const std::int64_t dim : named) {
    const auto n = static_cast<std::int64_t>(ndim);
    if (dim >= -n && dim < n) {
      dims.reduced[static_cast<std::size_t>(dim < 0 ? dim + n : dim)] = true;
    }
  }
  return dims;
}

// `partial`: what the reduction of a shard is. `needs_even`: only when shards
// are of equal size.
std::vector<Strategy> reduction(
    const OpCall& call, std::optional<ReduceOp> partial, bool needs_even) {
  const Dims dims = dims_of(call);
  std::vector<Strategy> strategies;
  for (std::size_t dim = 0; dim < call.shape(0).size(); ++dim) {
    const Placement shard = Shard(static_cast<int>(dim));
    const bool even = call.is_even(0, dim);
    if (!dims.reduced[dim]) {
      strategies.push_back(call.strategy(shard, Shard(dims.out(dim))));
    } else if (partial && (even || !needs_even)) {
      strategies.push_back(call.strategy(shard, Partial(*partial)));
    }
  }
  return strategies;
}

// Where an op is its own reduction: the sum of sums is a sum.
void add_passing(
    std::vector<Strategy>& strategies,
    const OpCall& call,
    std::initializer_list<ReduceOp> ops) {
  for (const ReduceOp op : ops) {
    if (call.current(0) == Partial(op)) {
      strategies.push_back(call.strategy(Partial(op), Partial(op)));
    }
  }
}

std::vector<Strategy> sum(const OpCall& call) {
  auto strategies = reduction(call, ReduceOp::SUM, false);
  add_passing(strategies, call, {ReduceOp::SUM, ReduceOp::AVG});
  return strategies;
}

// A NaN is left out of a part, but makes the whole NaN.
std::vector<Strategy> nansum(const OpCall& call) {
  return reduction(call, ReduceOp::SUM, false);
}

// The mean of means is the mean when all have as many elements.
std::vector<Strategy> mean(const OpCall& call) {
  auto strategies = reduction(call, ReduceOp::AVG, true);
  add_passing(strategies, call, {ReduceOp::SUM, ReduceOp::AVG});
  return strategies;
}

// An empty shard has no product but 1, and no maximum at all.
std::vector<Strategy> product(const OpCall& call) {
  return reduction(call, ReduceOp::PROD, false);
}

bool may_leave_empty_parts(const OpCall& call, std::size_t dim) {
  const std::int64_t n = call.shape(0)[dim];
  const std::int64_t chunk = chunk_size(n, call.axis_size());
  return !call.is_even(0, dim) &&
      (call.is_cut_unevenly(0, dim) || chunk * (call.axis_size() - 1) >= n);
}

std::vector<Strategy> extremum(const OpCall& call, ReduceOp op) {
  auto strategies = reduction(call, op, false);
  std::erase_if(strategies, [&](const Strategy& each) {
    return each.outputs[0].is_partial() &&
        may_leave_empty_parts(
               call, static_cast<std::size_t>(each.inputs[0].dim()));
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
  table.add({"sum"}, {.strategies = sum});
  table.add({"nansum"}, {.strategies = nansum});
  table.add({"mean"}, {.strategies = mean});
  table.add({"prod"}, {.strategies = product});
  table.add({"amax", "max"}, {.strategies = maximum});
  table.add({"amin", "min"}, {.strategies = minimum});
  table.add({"any"}, {.strategies = any});
  table.add({"all"}, {.strategies = all});
  table.add(
      {"argmax",
       "argmin",
       "count_nonzero",
       "linalg_vector_norm",
       "logsumexp",
       "max.dim",
       "median.dim",
       "min.dim",
       "norm",
       "std",
       "std_mean",
       "var",
       "var_mean"},
      {.strategies = whole_dims});
}

} // namespace argosy::dtensor
