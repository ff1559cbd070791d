#include "argosy/dtensor/ops/reduced_dims.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <numeric>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/mesh/rank_mesh.h"

namespace argosy::dtensor {

using comm::ReduceOp;

int ReducedDims::out(std::size_t dim) const {
  const auto before = std::count(
      reduced.begin(),
      reduced.begin() + static_cast<std::ptrdiff_t>(dim),
      true);
  return static_cast<int>(keep ? dim : dim - static_cast<std::size_t>(before));
}

ReducedDims reduced_dims(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  const Shape named = call.integers("dim");
  ReducedDims dims{
      std::vector<bool>(ndim, named.empty()), call.flag("keepdim", false)};
  for (const std::int64_t dim : named) {
    const std::size_t place = wrapped(dim, ndim);
    if (place < ndim) {
      dims.reduced[place] = true;
    }
  }
  return dims;
}

std::vector<Shape> reduced_shape(const OpCall& call) {
  const ReducedDims dims = reduced_dims(call);
  Shape shape;
  for (std::size_t dim = 0; dim < dims.reduced.size(); ++dim) {
    if (!dims.reduced[dim]) {
      shape.push_back(call.shape(0)[dim]);
    } else if (dims.keep) {
      shape.push_back(1);
    }
  }
  return std::vector<Shape>(call.num_outputs(), shape);
}

std::vector<Strategy> reduction(
    const OpCall& call, std::optional<ReduceOp> partial, bool needs_even) {
  const ReducedDims dims = reduced_dims(call);
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

std::vector<Strategy> reduction_together(const OpCall& call) {
  auto strategies = reduction(call, std::nullopt, false);
  const ReducedDims dims = reduced_dims(call);
  for (std::size_t dim = 0; dim < dims.reduced.size(); ++dim) {
    if (dims.reduced[dim]) {
      strategies.push_back(
          call.strategy(Shard(static_cast<int>(dim)), Replicate()));
    }
  }
  return strategies;
}

namespace {

// Those that are named; else all.
Shape dims_of(const c10::IValue* dim, std::size_t ndim) {
  Shape dims;
  if (dim != nullptr && dim->isInt()) {
    dims = {dim->toInt()};
  } else if (dim != nullptr && dim->isIntList()) {
    dims = dim->toIntVector();
  }
  if (dims.empty()) {
    dims.resize(ndim);
    std::iota(dims.begin(), dims.end(), std::int64_t{0});
  }
  return dims;
}

} // namespace

LocalReduction local_reduction(LocalCall& call) {
  const at::Tensor whole = call.original("self").toTensor();
  const auto ndim = static_cast<std::size_t>(whole.dim());
  LocalReduction found{.dims = dims_of(call.find("dim"), ndim)};
  std::vector<int> axes;
  const Placements& placements = call.decision().inputs[0].placements;
  for (std::int64_t& each : found.dims) {
    each = static_cast<std::int64_t>(wrapped(each, ndim));
    if (whole.dim() == 0) {
      break; // a number, whose dim 0 is not there
    }
    found.count *= whole.size(each);
    for (std::size_t axis = 0; axis < placements.size(); ++axis) {
      if (placements[axis].is_shard(static_cast<int>(each))) {
        axes.push_back(static_cast<int>(axis));
      }
    }
  }
  if (!axes.empty()) {
    found.group = call.mesh().ranks().group_over(axes);
  }
  return found;
}

} // namespace argosy::dtensor
