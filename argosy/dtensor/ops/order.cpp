// Ops that follow the order of a dim: cumulative ones, sorts, the largest.
// Other dims may be cut. Where the dim itself is, ranks put together what each
// found in its part, for those where that is little.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <tuple>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/dtensor/ops/reduced_dims.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/dim_group.h"

namespace argosy::dtensor {

namespace {

std::vector<Strategy> along_whole_dim(const OpCall& call) {
  const std::string letters =
      letters_but(call.shape(0).size(), call.integer("dim", -1));
  return by_letters(
      call, {letters}, std::vector<std::string>(call.num_outputs(), letters));
}

// The dim that a call names, and what ranks have of it.
struct CutDim {
  int dim;
  DimGroup ranks;
  Ranges held;

  explicit CutDim(LocalCall& call)
      : dim(static_cast<int>(wrapped(
            call.argument("dim").toInt(),
            static_cast<std::size_t>(call.original("self").toTensor().dim())))),
        ranks(call.mesh(), dim, call.decision().inputs[0].placements) {
    if (ranks.is_cut()) {
      held = ranks.ranges(
          call.original("self").toTensor().sizes().vec(),
          call.decision().inputs[0].placements);
    }
  }

  const Range& own() const { return held[ranks.own()]; }
};

std::vector<Strategy> cumulative(const OpCall& call) {
  const std::string letters = first_letters(call.shape(0).size());
  return by_letters(call, {letters}, {letters});
}

std::vector<Strategy> cumsum(const OpCall& call) {
  auto strategies = cumulative(call);
  pass_first_linear(strategies, call);
  return strategies;
}

// Of each part by itself, and then with what all parts before come to.
template <bool is_product>
void run_cumulative(LocalCall& call) {
  if (call.original("self").toTensor().dim() == 0) {
    call.run();
    return;
  }
  const CutDim cut(call);
  call.run();
  if (!cut.ranks.is_cut()) {
    return;
  }
  const at::Tensor own = call.result().toTensor();
  Shape shape = own.sizes().vec();
  shape[static_cast<std::size_t>(cut.dim)] = 1;
  const at::Tensor total = cut.own().size() == 0
      ? at::full(shape, is_product ? 1 : 0, own.options())
      : own.narrow(cut.dim, cut.own().size() - 1, 1);
  const at::Tensor totals =
      cut.ranks.concatenated(total, Shape(cut.ranks.size(), 1));
  const auto before = std::ranges::count_if(cut.held, [&](const Range& each) {
    return each.begin < cut.own().begin;
  });
  const at::Tensor first = totals.narrow(cut.dim, 0, before);
  if (is_product) {
    own.mul_(first.prod(cut.dim, true));
  } else {
    own.add_(first.sum(cut.dim, true));
  }
}

// Elements with their places in the whole dim.
struct Found {
  at::Tensor values;
  at::Tensor places;
};

// What all ranks have found: so many each.
Found all_found(const CutDim& cut, const Found& own, const Shape& sizes) {
  return {
      cut.ranks.concatenated(own.values, sizes),
      cut.ranks.concatenated(own.places.add(cut.own().begin), sizes)};
}

Shape at_most(const Ranges& held, std::int64_t count) {
  Shape sizes;
  for (const Range& each : held) {
    sizes.push_back(std::min(each.size(), count));
  }
  return sizes;
}

Found found(std::tuple<at::Tensor, at::Tensor> pair) {
  return {std::get<0>(pair), std::get<1>(pair)};
}

// When fewer than a rank's part are wanted of a cut dim, it is left so.
std::vector<Strategy> topk(const OpCall& call) {
  auto strategies = along_whole_dim(call);
  if (!call.shape(0).empty()) {
    const auto dim = static_cast<int>(
        wrapped(call.integer("dim", -1), call.shape(0).size()));
    strategies.push_back(call.strategy(Shard(dim), Replicate()));
  }
  return strategies;
}

// The largest of all are among the largest of each part.
void run_topk(LocalCall& call) {
  if (call.original("self").toTensor().dim() == 0) {
    call.run();
    return;
  }
  const CutDim cut(call);
  if (!cut.ranks.is_cut()) {
    call.run();
    return;
  }
  const std::int64_t count = call.argument("k").toInt();
  const bool largest = call.argument("largest").toBool();
  const bool sorted = call.argument("sorted").toBool();
  const Shape sizes = at_most(cut.held, count);
  const Found own = found(at::topk(
      call.argument("self").toTensor(),
      sizes[cut.ranks.own()],
      cut.dim,
      largest,
      sorted));
  const Found all = all_found(cut, own, sizes);
  const Found best =
      found(at::topk(all.values, count, cut.dim, largest, sorted));
  call.finish(
      torch::jit::Stack{best.values, all.places.gather(cut.dim, best.places)});
}

// Over all dims the place is that in the flattened tensor.
std::vector<Strategy> extremum(const OpCall& call) {
  return call.has("dim") ? reduction_together(call) : std::vector<Strategy>();
}

Found extremum(const at::Tensor& tensor, int dim, bool is_max) {
  return found(
      is_max ? at::max(tensor, dim, true) : at::min(tensor, dim, true));
}

// Of equal ones the first, as ranks are asked in the order of their parts.
template <bool is_max, bool has_values>
void run_extremum(LocalCall& call) {
  if (call.argument("dim").isNone() ||
      call.original("self").toTensor().dim() == 0) {
    call.run();
    return;
  }
  const CutDim cut(call);
  if (!cut.ranks.is_cut()) {
    call.run();
    return;
  }
  const at::Tensor self = call.argument("self").toTensor();
  const Found own = cut.own().size() > 0 ? extremum(self, cut.dim, is_max)
                                         : Found{self, self.to(at::kLong)};
  const Found all = all_found(cut, own, at_most(cut.held, 1));
  const Found best = extremum(all.values, cut.dim, is_max);
  const at::Tensor places = all.places.gather(cut.dim, best.places);
  const auto result = [&](const at::Tensor& each) {
    return call.argument("keepdim").toBool() ? each : each.squeeze(cut.dim);
  };
  if (has_values) {
    call.finish(torch::jit::Stack{result(best.values), result(places)});
  } else {
    call.finish(result(places));
  }
}

} // namespace

void add_order_rules(RuleTable& table) {
  table.add("cumsum", {.strategies = cumsum, .run = run_cumulative<false>});
  table.add("cumprod", {.strategies = cumulative, .run = run_cumulative<true>});
  table.add(
      "cummax cummin logcumsumexp sort",
      {.strategies = along_whole_dim, .shapes = shape_of_first});
  table.add("topk", {.strategies = topk, .run = run_topk});
  table.add(
      "max.dim", {.strategies = extremum, .run = run_extremum<true, true>});
  table.add(
      "min.dim", {.strategies = extremum, .run = run_extremum<false, true>});
  table.add(
      "argmax", {.strategies = extremum, .run = run_extremum<true, false>});
  table.add(
      "argmin", {.strategies = extremum, .run = run_extremum<false, false>});
}

} // namespace argosy::dtensor
