// Reductions whose parts do not just add up: mean, variance, norm, logsumexp.
// Over a dim that is cut, ranks reduce what they have and put small results
// together.

#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "argosy/comm/ops.h"
#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/reduced_dims.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/mesh_state.h"

namespace argosy::dtensor {

namespace {

// Means of equal parts are averaged; of others, shares of the mean are added.
std::vector<Strategy> mean(const OpCall& call) {
  auto strategies = reduction(call, comm::ReduceOp::AVG, true);
  const ReducedDims dims = reduced_dims(call);
  for (std::size_t dim = 0; dim < dims.reduced.size(); ++dim) {
    if (dims.reduced[dim] && !call.is_even(0, dim)) {
      strategies.push_back(
          call.strategy(Shard(static_cast<int>(dim)), Partial()));
    }
  }
  add_passing(strategies, call, {comm::ReduceOp::SUM, comm::ReduceOp::AVG});
  return strategies;
}

// By how many ranks the result is divided when it is reduced; 0 when all parts
// are equal.
std::int64_t averaged_ranks(LocalCall& call, const Shape& dims) {
  const Placements& in = call.decision().inputs[0].placements;
  const Placements& out = call.decision().outputs[0].placements;
  std::int64_t ranks = 1;
  bool is_uneven = false;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    const bool cut = in[axis].is_shard() &&
        std::ranges::find(dims, in[axis].dim()) != dims.end();
    if (cut && out[axis] == Partial(comm::ReduceOp::AVG)) {
      ranks *= call.mesh().mesh().shape()[axis];
    }
    is_uneven = is_uneven || (cut && out[axis] == Partial());
  }
  return is_uneven ? ranks : 0;
}

// An axis with unequal parts leaves a sum, others an average. Sums are divided
// by the count of the whole, and multiplied by the ranks that the average will
// divide by.
void run_mean(LocalCall& call) {
  const LocalReduction reduction = local_reduction(call);
  const std::int64_t ranks = averaged_ranks(call, reduction.dims);
  if (ranks == 0) {
    call.run();
    return;
  }
  const at::Tensor self = call.argument("self").toTensor();
  const c10::IValue* keep = call.find("keepdim");
  const at::Tensor sum = self.sum(
      reduction.dims,
      keep != nullptr && keep->toBool(),
      call.argument("dtype").toOptional<at::ScalarType>());
  call.finish(sum.mul(
      static_cast<double>(ranks) / static_cast<double>(reduction.count)));
}

std::vector<Strategy> together(const OpCall& call) {
  return call.tensor("self").is_complex() ? reduction(call, std::nullopt, false)
                                          : reduction_together(call);
}

at::Tensor sum_over(const at::Tensor& tensor, const GroupPtr& group) {
  const at::Tensor out = tensor.contiguous();
  all_reduce(out, ReduceOp::SUM, group);
  return out;
}

struct Moments {
  at::Tensor mean;
  at::Tensor variance;
};

// Keeps all reduced dims, so that the mean can be subtracted. Two passes, each
// with one all-reduce: squares are summed around the mean of the whole, as the
// difference of two large sums would lose digits.
Moments moments(
    const at::Tensor& self,
    const LocalReduction& reduction,
    const c10::IValue& correction) {
  const std::int64_t less = correction.isInt() ? correction.toInt() : 1;
  const auto count = static_cast<double>(reduction.count);
  const double divisor = std::max(count - static_cast<double>(less), 0.0);
  const at::Tensor mean =
      sum_over(self.sum(reduction.dims, true), reduction.group).div(count);
  const at::Tensor squares = self.sub(mean).square().sum(reduction.dims, true);
  return {mean, sum_over(squares, reduction.group).div(divisor)};
}

template <bool is_root, bool has_mean>
void run_moments(LocalCall& call) {
  const LocalReduction reduction = local_reduction(call);
  if (reduction.group == nullptr) {
    call.run();
    return;
  }
  const Moments found = moments(
      call.argument("self").toTensor(), reduction, call.argument("correction"));
  const Shape& shape = call.decision().outputs[0].tensors.at(0).local;
  const at::Tensor first = is_root ? found.variance.sqrt() : found.variance;
  torch::jit::Stack results{first.reshape(shape)};
  if (has_mean) {
    results.emplace_back(found.mean.reshape(shape));
  }
  call.finish(std::move(results));
}

double order_of(LocalCall& call) {
  const c10::IValue* order = call.find("p");
  order = order == nullptr ? call.find("ord") : order;
  return order == nullptr || order->isNone() ? 2 : order->toScalar().toDouble();
}

at::Tensor joined_norm(
    const at::Tensor& own, double order, const GroupPtr& group) {
  if (std::isinf(order)) {
    const at::Tensor out = own.contiguous();
    all_reduce(out, order > 0 ? ReduceOp::MAX : ReduceOp::MIN, group);
    return out;
  }
  return order == 0 ? sum_over(own, group)
                    : sum_over(own.pow(order), group).pow(1 / order);
}

// The norm of norms.
void run_norm(LocalCall& call) {
  const LocalReduction reduction = local_reduction(call);
  if (reduction.group == nullptr) {
    call.run();
    return;
  }
  const double order = order_of(call);
  call.run();
  const at::Tensor own = call.result().toTensor();
  call.result() = joined_norm(own, order, reduction.group);
}

// Shifted by the largest part, so that nothing overflows.
void run_logsumexp(LocalCall& call) {
  const LocalReduction reduction = local_reduction(call);
  if (reduction.group == nullptr) {
    call.run();
    return;
  }
  call.run();
  const at::Tensor own = call.result().toTensor();
  const at::Tensor largest = own.clone();
  all_reduce(largest, ReduceOp::MAX, reduction.group);
  // Infinity less infinity is not a number; without a shift the result is
  // infinite, as it should be.
  const at::Tensor shift =
      at::where(largest.isinf(), at::zeros_like(largest), largest);
  call.result() =
      sum_over(own.sub(shift).exp(), reduction.group).log().add(shift);
}

std::vector<Strategy> norm(const OpCall& call) {
  auto strategies = together(call);
  // The largest of no elements is not defined.
  std::erase_if(strategies, [&](const Strategy& each) {
    return each.outputs[0].is_replicated() &&
        may_leave_empty_parts(
               call, 0, static_cast<std::size_t>(each.inputs[0].dim()));
  });
  return strategies;
}

} // namespace

void add_statistics_rules(RuleTable& table) {
  table.add("mean", {.strategies = mean, .run = run_mean});
  const auto add = [&](const char* names, void (*run)(LocalCall&)) {
    table.add(
        names, {.strategies = together, .shapes = reduced_shape, .run = run});
  };
  add("var.correction", run_moments<false, false>);
  add("std.correction", run_moments<true, false>);
  add("var_mean.correction", run_moments<false, true>);
  add("std_mean.correction", run_moments<true, true>);
  add("logsumexp", run_logsumexp);
  table.add(
      "norm linalg_vector_norm",
      {.strategies = norm, .shapes = reduced_shape, .run = run_norm});
}

} // namespace argosy::dtensor
