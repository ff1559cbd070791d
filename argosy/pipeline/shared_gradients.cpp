#include "argosy/pipeline/shared_gradients.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "argosy/common/error.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::pipeline {

namespace {

int rank_of(const GroupPtr& group, int stage) {
  return group->ranks()[static_cast<std::size_t>(stage)];
}

at::Tensor gradient_of(const SharedWeight& weight) {
  const at::Tensor& gradient = weight.parameter.grad();
  if (!gradient.defined()) {
    return at::zeros_like(weight.parameter);
  }
  ARGOSY_CHECK(
      !gradient.is_sparse(),
      "[pipeline] the gradient of {}, which several stages share, is sparse, "
      "expected a dense one",
      weight.name);
  return gradient;
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
    if (gradient.defined()) {
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
    if (group->rank() != first) {
      at::Tensor values = at::empty_like(weight.parameter);
      recv(values, rank_of(group, first), group);
      weight.parameter.copy_(values);
      continue;
    }
    const at::Tensor values = weight.parameter.detach().contiguous();
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
