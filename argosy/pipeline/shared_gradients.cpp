#include "argosy/pipeline/shared_gradients.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "argosy/dtensor/dtensor.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::pipeline {

namespace {

int rank_of(const GroupPtr& group, int stage) {
  return group->ranks()[static_cast<std::size_t>(stage)];
}

// What this rank holds of a tensor: of a DTensor its part. All stages place a
// shared weight alike, each over its own ranks, so parts match parts.
at::Tensor own_part(const at::Tensor& tensor) {
  return is_dtensor(tensor) ? to_local(tensor) : tensor;
}

// A gradient placed as its weight: the sum over the stages is of whole
// gradients, not of what ranks still have to add up.
at::Tensor placed_as(const at::Tensor& weight, const at::Tensor& gradient) {
  return is_dtensor(weight)
      ? shard_tensor(gradient, process_mesh_of(weight), placements_of(weight))
      : gradient;
}

at::Tensor gradient_of(const SharedWeight& weight) {
  const at::Tensor& gradient = weight.parameter.grad();
  if (!gradient.defined()) {
    return at::zeros_like(own_part(weight.parameter));
  }
  // The stages may have other rows, and one of them a dense gradient.
  return own_part(placed_as(
      weight.parameter, gradient.is_sparse() ? gradient.to_dense() : gradient));
}

// Sums the gradient of one weight over the stages that hold it.
class GradientSum {
 public:
  GradientSum(const SharedWeight& weight, const GroupPtr& group)
      : weight_(weight), own_(gradient_of(weight).contiguous()) {
    for (const int stage : weight.stages) {
      if (stage == group->rank()) {
        others_.push_back(own_);
        continue;
      }
      others_.push_back(at::empty_like(own_));
      works_.push_back(isend(own_, rank_of(group, stage), group));
      works_.push_back(irecv(others_.back(), rank_of(group, stage), group));
    }
  }

  void finish() const {
    for (const WorkPtr& work : works_) {
      work->wait();
    }
    // In stage order on all stages, so that they get the same bits.
    at::Tensor sum = others_.front().clone();
    for (std::size_t i = 1; i < others_.size(); ++i) {
      sum.add_(others_[i]);
    }
    at::Tensor& gradient = weight_.parameter.mutable_grad();
    if (is_dtensor(weight_.parameter)) {
      gradient = from_local(
          sum,
          process_mesh_of(weight_.parameter),
          placements_of(weight_.parameter),
          weight_.parameter.sizes().vec());
    } else if (gradient.defined() && !gradient.is_sparse()) {
      gradient.copy_(sum); // where it lies, which may be a part of a buffer
    } else {
      gradient = sum;
    }
  }

 private:
  const SharedWeight& weight_;
  const at::Tensor own_;
  Tensors others_; // by the places of their stages
  std::vector<WorkPtr> works_;
};

} // namespace

void share_weights(
    const std::vector<SharedWeight>& weights, const GroupPtr& group) {
  const at::NoGradGuard no_grad;
  // All stages list the weights in the same order, so that each blocking recv()
  // meets its send().
  for (const SharedWeight& weight : weights) {
    const int first = weight.stages.front();
    ParameterMarks marks = marks_of(weight.parameter);
    // The gradient norm of fleet/hybrid_step.cpp counts the weight once.
    marks.is_firstly_shared = first == group->rank();
    set_marks(weight.parameter, marks);
    const at::Tensor own = own_part(weight.parameter.detach());
    if (group->rank() != first) {
      at::Tensor values = at::empty_like(own, at::MemoryFormat::Contiguous);
      recv(values, rank_of(group, first), group);
      own.copy_(values);
      continue;
    }
    const at::Tensor values = own.contiguous();
    for (std::size_t i = 1; i < weight.stages.size(); ++i) {
      send(values, rank_of(group, weight.stages[i]), group);
    }
  }
}

void sum_gradients(
    const std::vector<SharedWeight>& weights, const GroupPtr& group) {
  const at::NoGradGuard no_grad;
  // All transfers start before the first wait, so that they overlap.
  std::vector<GradientSum> sums;
  sums.reserve(weights.size());
  for (const SharedWeight& weight : weights) {
    sums.emplace_back(weight, group);
  }
  for (const GradientSum& each : sums) {
    each.finish();
  }
}

} // namespace argosy::pipeline
