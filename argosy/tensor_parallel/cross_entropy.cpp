#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/tensor_parallel/ops.h"
#include "argosy/trace/recorded_call.h"

namespace argosy::tensor_parallel {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// The classes that this rank has.
comm::ShardRange own_classes(
    std::int64_t own, const Group& group, std::int64_t num_classes) {
  const std::int64_t whole =
      num_classes == 0 ? own * group.nranks() : num_classes;
  const comm::ShardRange part =
      comm::shard_range(whole, group.nranks(), group.rank());
  ARGOSY_CHECK(
      part.size == own,
      "[tensor_parallel.cross_entropy] the scores have {} classes, expected "
      "rank {}'s part of {}, {}",
      own,
      group.rank(),
      whole,
      part.size);
  return part;
}

void check_targets(
    const at::Tensor& target, const at::Tensor& ignored, std::int64_t classes) {
  const at::Tensor wrong = target.lt(0)
                               .logical_or_(target.ge(classes))
                               .logical_and_(ignored.logical_not());
  ARGOSY_CHECK(
      !wrong.any().item<bool>(),
      "[tensor_parallel.cross_entropy] target {} is not in [0, {})",
      target.masked_select(wrong).select(0, 0).item<std::int64_t>(),
      classes);
}

// The targets whose class this rank has: their rows, and the positions of their
// scores.
struct OwnTargets {
  at::Tensor rows;
  at::Tensor places;
};

OwnTargets own_targets(
    const at::Tensor& target,
    const at::Tensor& ignored,
    comm::ShardRange classes) {
  const at::Tensor column = target - classes.begin;
  const at::Tensor rows = column.ge(0)
                              .logical_and_(column.lt(classes.size))
                              .logical_and_(ignored.logical_not())
                              .nonzero()
                              .squeeze(1);
  return {rows, rows * classes.size + column.index_select(0, rows)};
}

at::Tensor largest_scores(const at::Tensor& scores, const GroupPtr& group) {
  at::Tensor largest = scores.size(1) > 0
      ? scores.amax(1)
      : at::full(
            {scores.size(0)},
            -std::numeric_limits<double>::infinity(),
            scores.options());
  all_reduce(largest, ReduceOp::MAX, group);
  return largest;
}

bool is_short_float(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ||
      tensor.scalar_type() == at::kHalf;
}

// Scores [rows, classes], targets [rows]. No rank sees all classes of a row.
// Forward exchanges three numbers for each row: the largest score, the sum of
// the exponentials and the score of the target. Backward needs no
// communication: softmax minus one-hot is local to the classes of a rank.
struct CrossEntropy : Function<CrossEntropy> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& given,
      const at::Tensor& ignored,
      const OwnTargets& own,
      const GroupPtr& group) {
    const at::Tensor scores =
        is_short_float(given) ? given.to(at::kFloat) : given;
    const at::Tensor shifted =
        scores - largest_scores(scores, group).unsqueeze(1);
    // One all_reduce for both: the sums of the exponentials and the targets'
    // scores.
    at::Tensor sums = at::zeros({2, scores.size(0)}, scores.options());
    sums[1].index_copy_(
        0, own.rows, shifted.view({-1}).index_select(0, own.places));
    // In place, after the targets' scores have been read.
    const at::Tensor exponentials = shifted.exp_();
    sums[0].copy_(exponentials.sum(1));
    all_reduce(sums, ReduceOp::SUM, group);
    const at::Tensor softmax = exponentials.div_(sums[0].unsqueeze(1));
    context->save_for_backward({softmax, ignored, own.rows, own.places});
    context->saved_data["type"] = given.scalar_type();
    return (sums[0].log() - sums[1]).masked_fill_(ignored, 0);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[tensor_parallel.cross_entropy] has no second derivative");
    const auto saved = context->get_saved_variables();
    const at::Tensor grad = grads[0].masked_fill(saved[1], 0);
    at::Tensor out = saved[0] * grad.unsqueeze(1);
    out.view({-1}).index_add_(0, saved[3], -grad.index_select(0, saved[2]));
    return {out.to(context->saved_data["type"].toScalarType()), {}, {}, {}};
  }
};

at::Tensor entropy_of(
    const at::Tensor& scores,
    const at::Tensor& target,
    const GroupPtr& members,
    const CrossEntropyOptions& options) {
  ARGOSY_CHECK(
      scores.dim() > 0 && scores.numel() == target.numel() * scores.size(-1),
      "[tensor_parallel.cross_entropy] scores {} and targets {}, expected a "
      "target for each row of scores",
      scores.sizes(),
      target.sizes());
  const comm::ShardRange classes =
      own_classes(scores.size(-1), *members, options.num_classes);
  const at::Tensor flat = target.reshape({-1});
  const at::Tensor ignored = flat.eq(options.ignore_index);
  check_targets(
      flat,
      ignored,
      options.num_classes == 0 ? classes.size * members->nranks()
                               : options.num_classes);
  return CrossEntropy::apply(
             scores.reshape({flat.size(0), classes.size}),
             ignored,
             own_targets(flat, ignored, classes),
             members)
      .view(target.sizes());
}

} // namespace

at::Tensor cross_entropy(
    const at::Tensor& scores,
    const at::Tensor& target,
    const GroupPtr& group,
    const CrossEntropyOptions& options) {
  const auto call = [members = group_or_axis(group, "model"),
                     options](const Tensors& in) {
    return Tensors{entropy_of(in[0], in[1], members, options)};
  };
  return trace::recorded_call({scores, target}, call)[0];
}

} // namespace argosy::tensor_parallel
