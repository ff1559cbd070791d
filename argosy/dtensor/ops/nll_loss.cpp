// The negative log-likelihood of a target class for each sample. Samples that
// are cut give a sum and its weight, reduced as one; where classes are cut,
// each rank counts the targets among its own, and the loss is Partial.

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/nll_loss2d_forward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/ops/axes.h"
#include "argosy/dtensor/ops/families.h"

namespace argosy::dtensor {

namespace {

using OptionalTensor = c10::optional<at::Tensor>;

std::size_t class_dim(std::size_t ndim) {
  return ndim == 1 ? 0 : 1;
}

// Where a dim of the input is in the target, which has no classes.
int target_dim(std::size_t dim) {
  return static_cast<int>(dim == 0 ? 0 : dim - 1);
}

std::int64_t nll_reduction_of(const OpCall& call) {
  return call.integer("reduction", at::Reduction::Mean);
}

Strategy forward_by_samples(const OpCall& call, std::size_t dim) {
  Strategy strategy = call.strategy();
  strategy.inputs[0] = Shard(static_cast<int>(dim));
  strategy.inputs[1] = Shard(target_dim(dim));
  if (nll_reduction_of(call) == at::Reduction::None) {
    strategy.outputs[0] = Shard(target_dim(dim));
  } else if (nll_reduction_of(call) == at::Reduction::Sum) {
    strategy.outputs = {Partial(), Partial()};
  }
  return strategy;
}

Strategy forward_by_classes(const OpCall& call, std::size_t dim) {
  Strategy strategy = call.strategy();
  strategy.inputs[0] = Shard(static_cast<int>(dim));
  strategy.outputs[0] = Partial();
  return strategy;
}

std::vector<Strategy> nll_loss_forward(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  std::vector<Strategy> strategies;
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    strategies.push_back(
        dim == class_dim(ndim) ? forward_by_classes(call, dim)
                               : forward_by_samples(call, dim));
  }
  return strategies;
}

std::vector<Shape> nll_loss_forward_shapes(const OpCall& call) {
  return {
      nll_reduction_of(call) == at::Reduction::None ? call.shape(1) : Shape(),
      {}};
}

// Inputs are grad_output, self, target, perhaps weight, total_weight.
std::vector<Strategy> nll_loss_backward(const OpCall& call) {
  const std::size_t ndim = call.shape(1).size();
  std::vector<Strategy> strategies;
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    const Placement shard = Shard(static_cast<int>(dim));
    Strategy strategy = call.strategy();
    strategy.inputs[1] = shard;
    strategy.outputs[0] = shard;
    if (dim != class_dim(ndim)) {
      strategy.inputs[2] = Shard(target_dim(dim));
      if (!call.shape(0).empty()) {
        strategy.inputs[0] = Shard(target_dim(dim));
      }
    }
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

std::vector<Shape> nll_loss_backward_shapes(const OpCall& call) {
  return {call.shape(1)};
}

// What a call has, of this rank.
struct Samples {
  at::Tensor self;
  at::Tensor target;
  OptionalTensor weight;
  std::int64_t ignored;

  explicit Samples(LocalCall& call)
      : self(call.argument("self").toTensor()),
        target(call.argument("target").toTensor()),
        weight(call.argument("weight").toOptional<at::Tensor>()),
        ignored(call.argument("ignore_index").toInt()) {}

  std::int64_t class_dim() const { return self.dim() == 1 ? 0 : 1; }
  bool is_image() const { return self.dim() == 4; }
  bool has_weight() const { return weight && weight->defined(); }

  // Of all targets, whosoever classes they are.
  at::Tensor total_weight() const {
    const at::Tensor all = target.flatten();
    const at::Tensor counted = all.masked_select(all != ignored);
    return has_weight() ? weight->index_select(0, counted).sum()
                        : at::scalar_tensor(counted.numel(), self.options());
  }
};

void check_targets(const Samples& samples, std::int64_t classes) {
  const at::Tensor& target = samples.target;
  const at::Tensor outside = (target < 0).logical_or_(target >= classes);
  ARGOSY_CHECK(
      !outside.logical_and_(target != samples.ignored).any().item<bool>(),
      "[dtensor.nll_loss] a target is out of bounds, expected classes from 0 "
      "to ",
      classes - 1);
}

// Numbers the classes from the first that this rank has, and ignores targets
// that are others'.
Samples with_own_classes(LocalCall& call) {
  Samples samples(call);
  const std::int64_t dim = samples.class_dim();
  check_targets(samples, call.original("self").toTensor().size(dim));
  const std::int64_t first = offset_of(call, "self", dim);
  const std::int64_t count = samples.self.size(dim);
  const at::Tensor place = samples.target.to(at::kLong) - first;
  const at::Tensor is_own =
      (place >= 0)
          .logical_and_(place < count)
          .logical_and_(samples.target != samples.ignored);
  samples.ignored = -1;
  samples.target = place.masked_fill(is_own.logical_not(), samples.ignored);
  if (samples.has_weight()) {
    samples.weight = samples.weight->narrow(0, first, count);
  }
  return samples;
}

std::tuple<at::Tensor, at::Tensor> local_forward(
    const Samples& samples, std::int64_t reduction) {
  const auto forward_of =
      samples.is_image() ? &at::nll_loss2d_forward : &at::nll_loss_forward;
  return forward_of(
      samples.self, samples.target, samples.weight, reduction, samples.ignored);
}

void run_nll_loss_forward(LocalCall& call) {
  const Samples samples(call);
  const std::int64_t reduction = call.argument("reduction").toInt();
  const bool is_mean = reduction == at::Reduction::Mean;
  const bool cuts_classes =
      !axes_that_cut(call, "self", samples.class_dim()).empty();
  const auto batch_axes = axes_that_cut(call, "self", [&](int dim) {
    return is_mean && dim != samples.class_dim();
  });
  if (!cuts_classes && batch_axes.empty()) {
    call.run();
    return;
  }
  auto [loss, weight] = local_forward(
      cuts_classes ? with_own_classes(call) : samples,
      is_mean ? std::int64_t{at::Reduction::Sum} : reduction);
  if (cuts_classes && reduction != at::Reduction::None) {
    weight = samples.total_weight();
  }
  if (is_mean) {
    const at::Tensor both = at::stack({loss, weight});
    reduce_over(call, batch_axes, both);
    loss = both[0] / both[1];
    weight = both[1];
  }
  call.finish(torch::jit::Stack{loss, weight});
}

void run_nll_loss_backward(LocalCall& call) {
  if (!axes_that_cut(call, "self", Samples(call).class_dim()).empty()) {
    const Samples own = with_own_classes(call);
    call.argument("target") = own.target;
    call.argument("weight") = own.weight;
    call.argument("ignore_index") = own.ignored;
  }
  call.run();
}

} // namespace

void add_nll_loss_rules(RuleTable& table) {
  table.add(
      "nll_loss_forward nll_loss2d_forward",
      {.strategies = nll_loss_forward,
       .shapes = nll_loss_forward_shapes,
       .run = run_nll_loss_forward});
  table.add(
      "nll_loss_backward nll_loss2d_backward",
      {.strategies = nll_loss_backward,
       .shapes = nll_loss_backward_shapes,
       .run = run_nll_loss_backward});
}

} // namespace argosy::dtensor
