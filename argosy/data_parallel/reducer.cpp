#include "argosy/data_parallel/reducer.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/data_parallel/bucket_memory.h"
#include "argosy/data_parallel/sparse_average.h"
#include "argosy/training/main_grads.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::data_parallel {

namespace {

training::GradientSchedule schedule_of(const BucketPlan& plan) {
  std::vector<std::vector<std::size_t>> buckets;
  for (const Bucket& bucket : plan.buckets) {
    auto& parameters = buckets.emplace_back();
    for (const BucketEntry& entry : bucket.entries) {
      parameters.push_back(entry.parameter);
    }
  }
  return training::GradientSchedule(std::move(buckets));
}

} // namespace

Reducer::Reducer(
    const std::vector<NamedTensor>& parameters, ReducerOptions options)
    : options_(std::move(options)),
      hook_(options_.hook ? options_.hook : make_all_reduce_hook()),
      reduction_(
          parameters,
          {.tag = "[data_parallel]",
           .uneven_advice = kUnevenAdvice,
           .groups = {options_.group},
           .find_unused_parameters = options_.find_unused_parameters,
           .static_graph = options_.static_graph},
          *this) {
  for (const NamedTensor& named : parameters) {
    add(named);
  }
  // A guess that all ranks make alike; reschedule() replaces it after the first
  // backward.
  plan_anew(training::expected_order(parameters_.size()));
  reduction_.set_schedule(schedule_of(plan_));
}

void Reducer::add(const NamedTensor& named) {
  Parameter parameter;
  parameter.name = named.first;
  parameter.tensor = named.second;
  parameter.sparse =
      std::ranges::find(options_.sparse, named.first) != options_.sparse.end();
  // Sparse gradients do not go through a bucket, the only place where a
  // gradient is widened.
  parameter.type = training::grad_type(
      parameter.tensor.scalar_type(), options_.main_grad && !parameter.sparse);
  parameters_.push_back(std::move(parameter));
}

void Reducer::plan_anew(const std::vector<std::size_t>& order) {
  std::vector<ParameterInfo> infos;
  for (const Parameter& parameter : parameters_) {
    infos.push_back(
        {.name = parameter.name,
         .count = parameter.tensor.numel(),
         .element = c10::elementSize(parameter.type),
         .type = c10::toString(parameter.type),
         .sparse = parameter.sparse,
         .comm_fusion = marks_of(parameter.tensor).comm_fusion});
  }
  const BucketPlan better = plan_buckets(infos, order, options_.fusion);
  // lay_out() allocates collectively. All ranks decide alike, because they plan
  // from the order that the first rank has broadcast.
  if (better != plan_) {
    lay_out(better);
  }
}

void Reducer::lay_out(const BucketPlan& new_plan) {
  std::vector<BucketState> fresh;
  for (const Bucket& bucket : new_plan.buckets) {
    BucketState& state = fresh.emplace_back();
    GradBucket& gradients = state.gradients;
    gradients.index = fresh.size() - 1;
    state.sparse = bucket.sparse;
    if (!bucket.sparse) {
      gradients.flat = bucket_memory(
          bucket.count,
          parameters_[bucket.entries.front().parameter].type,
          options_.group);
    }
    for (const BucketEntry& entry : bucket.entries) {
      Parameter& parameter = parameters_[entry.parameter];
      gradients.parameters.push_back(entry.parameter);
      gradients.values.push_back(parameter.tensor);
      if (!bucket.sparse) {
        gradients.gradients.push_back(
            bucket_part(gradients.flat, entry.begin, parameter.tensor.sizes()));
        adopt(parameter, gradients.gradients.back());
      }
    }
  }
  plan_ = new_plan;
  buckets_ = std::move(fresh);
}

// Points a parameter at its place in a new bucket. reschedule() runs after
// publish(), so the gradient of the first pass lies in the old bucket and
// moves. The old view keeps the old bucket's memory alive until then.
void Reducer::adopt(Parameter& parameter, const at::Tensor& view) {
  const at::Tensor before = std::exchange(parameter.view, view);
  if (before.defined() && parameter.tensor.grad().is_same(before)) {
    view.copy_(before);
    parameter.tensor.mutable_grad() = view;
  }
}

void Reducer::check_layout(const Parameter& parameter) const {
  const at::Tensor& gradient = parameter.tensor.grad();
  ARGOSY_CHECK(
      !gradient.defined() || gradient.is_sparse() == parameter.sparse,
      "[data_parallel] the gradient of {} is {}, expected a {} one: list "
      "parameters with sparse gradients in "
      "DataParallelOptions::sparse_parameters",
      parameter.name,
      gradient.is_sparse() ? "sparse" : "dense",
      parameter.sparse ? "sparse" : "dense");
}

// Copies the gradient into the bucket. After the first pass the gradient is the
// view itself, unless zero_grad() has dropped it, and nothing is copied. An
// undefined gradient must still clear the view: the other ranks add what lies
// there.
void Reducer::take(std::size_t index) {
  Parameter& parameter = parameters_[index];
  check_layout(parameter);
  if (parameter.sparse) {
    return; // all gradients of sparse buckets are exchanged at the end
  }
  const at::Tensor& gradient = parameter.tensor.grad();
  if (!gradient.defined()) {
    parameter.view.zero_();
  } else if (gradient.data_ptr() != parameter.view.data_ptr()) {
    const at::NoGradGuard no_grad;
    parameter.view.copy_(gradient);
  }
}

// With main_grad, moves a 16-bit gradient into its float32 bucket, so that
// later passes without sync add to it in float32. Gradients of other parameters
// stay where autograd accumulates them, until take().
void Reducer::accumulate(std::size_t index) {
  Parameter& parameter = parameters_[index];
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  if (gradient.defined() && gradient.scalar_type() != parameter.type) {
    take(index);
    gradient = parameter.view;
  }
}

void Reducer::launch(std::size_t index) {
  BucketState& bucket = buckets_[index];
  if (!bucket.sparse) {
    bucket.in_flight = true;
    hook_->start(bucket.gradients, options_.group);
  }
}

void Reducer::finish() {
  for (BucketState& bucket : buckets_) {
    finish(bucket);
  }
}

void Reducer::finish(BucketState& bucket) {
  const at::NoGradGuard no_grad;
  if (bucket.sparse) {
    // A sparse bucket has one parameter; see Filler in bucket_plan.cpp.
    Parameter& parameter = parameters_[bucket.gradients.parameters.front()];
    parameter.tensor.mutable_grad() = average_sparse(
        parameter.tensor.grad(), parameter.tensor, options_.group);
    return;
  }
  bucket.in_flight = false;
  hook_->finish(bucket.gradients, options_.group);
  if (divisor_ > 0) {
    // Hooks average over the ranks of the group; this replaces the divisor.
    bucket.gradients.flat.mul_(
        static_cast<double>(options_.group->nranks()) / divisor_);
  }
}

// The average becomes the gradient without a copy.
void Reducer::publish(std::size_t index) {
  Parameter& parameter = parameters_[index];
  if (!parameter.sparse) {
    parameter.tensor.mutable_grad() = parameter.view;
  }
}

training::GradientSchedule Reducer::reschedule(
    const std::vector<std::size_t>& arrivals) {
  plan_anew(arrivals);
  return schedule_of(plan_);
}

// Waits for what this rank has launched: the backend still reads and writes the
// buckets, and the next pass would overwrite them.
void Reducer::abandon() noexcept {
  for (BucketState& bucket : buckets_) {
    if (!std::exchange(bucket.in_flight, false)) {
      continue;
    }
    try {
      hook_->abandon(bucket.gradients, options_.group);
    } catch (const std::exception& error) {
      // backward() already throws; the next use of the group fails as well.
      log::warn("[data_parallel] after a failed backward: ", error.what());
    }
  }
}

void Reducer::prepare(const Tensors& outputs) {
  if (reduction_.sync() && reduction_.needs_expectations()) {
    reduction_.expect_from(outputs);
  }
}

} // namespace argosy::data_parallel
