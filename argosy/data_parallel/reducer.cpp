#include "argosy/data_parallel/reducer.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <optional>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/data_parallel/bucket_hook.h"
#include "argosy/data_parallel/bucket_memory.h"
#include "argosy/data_parallel/graph_walk.h"
#include "argosy/data_parallel/sparse_average.h"
#include "argosy/training/gradient_reduction.h"
#include "argosy/training/main_grads.h"

namespace argosy::data_parallel {

namespace {

struct Parameter {
  std::string name;
  at::Tensor tensor;
  bool sparse = false;
  c10::ScalarType type = c10::kFloat; // of the gradient
  at::Tensor view; // of the bucket's memory; undefined for sparse gradients
};

struct BucketState {
  GradBucket gradients;
  bool sparse = false;
  bool in_flight = false; // between start() and finish() of the hook
};

ParameterInfo info_of(const Parameter& parameter) {
  return {
      .name = parameter.name,
      .count = parameter.tensor.numel(),
      .element = c10::elementSize(parameter.type),
      .type = c10::toString(parameter.type),
      .sparse = parameter.sparse};
}

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

struct Reducer::Impl final : training::BucketReducer {
  Impl(
      const std::vector<NamedTensor>& named_parameters,
      ReducerOptions its_options)
      : options(std::move(its_options)),
        hook(options.hook ? options.hook : make_all_reduce_hook()),
        reduction(
            named_parameters,
            {.module = "data_parallel",
             .groups = {options.group},
             .find_unused_parameters = options.find_unused_parameters,
             .static_graph = options.static_graph},
            *this) {
    for (const NamedTensor& named : named_parameters) {
      add(named);
    }
    plan_anew(training::expected_order(parameters.size()));
    reduction.set_schedule(schedule_of(plan));
  }

  const ReducerOptions options;
  const std::shared_ptr<BucketHook> hook;
  std::vector<Parameter> parameters;
  BucketPlan plan;
  std::vector<BucketState> buckets;
  int divisor = 0;
  training::GradientReduction reduction;

  void add(const NamedTensor& named);
  void plan_anew(const std::vector<std::size_t>& order);
  void lay_out(const BucketPlan& new_plan);
  void adopt(Parameter& parameter, const at::Tensor& view);
  void check_layout(const Parameter& parameter) const;
  void finish(BucketState& bucket);

  void take(std::size_t index) override;
  void accumulate(std::size_t index) override;
  void launch(std::size_t index) override;
  void finish() override;
  void publish(std::size_t index) override;
  training::GradientSchedule reschedule(
      const std::vector<std::size_t>& arrivals) override;
  void abandon() noexcept override;
};

void Reducer::Impl::add(const NamedTensor& named) {
  Parameter parameter;
  parameter.name = named.first;
  parameter.tensor = named.second;
  parameter.sparse =
      std::find(options.sparse.begin(), options.sparse.end(), named.first) !=
      options.sparse.end();
  parameter.type = training::grad_type(
      parameter.tensor.scalar_type(), options.main_grad && !parameter.sparse);
  parameters.push_back(std::move(parameter));
}

void Reducer::Impl::plan_anew(const std::vector<std::size_t>& order) {
  std::vector<ParameterInfo> infos;
  for (const Parameter& parameter : parameters) {
    infos.push_back(info_of(parameter));
  }
  const BucketPlan better = plan_buckets(infos, order, options.fusion);
  if (better != plan) {
    lay_out(better);
  }
}

void Reducer::Impl::lay_out(const BucketPlan& new_plan) {
  std::vector<BucketState> fresh;
  for (const Bucket& bucket : new_plan.buckets) {
    BucketState& state = fresh.emplace_back();
    GradBucket& gradients = state.gradients;
    gradients.index = fresh.size() - 1;
    state.sparse = bucket.sparse;
    if (!bucket.sparse) {
      gradients.flat = bucket_memory(
          bucket.count,
          parameters[bucket.entries.front().parameter].type,
          options.group);
    }
    for (const BucketEntry& entry : bucket.entries) {
      Parameter& parameter = parameters[entry.parameter];
      gradients.parameters.push_back(entry.parameter);
      if (!bucket.sparse) {
        gradients.gradients.push_back(
            bucket_part(gradients.flat, entry.begin, parameter.tensor.sizes()));
        adopt(parameter, gradients.gradients.back());
      }
    }
  }
  plan = new_plan;
  buckets = std::move(fresh);
}

// A gradient that lies in the old bucket moves into the new one.
void Reducer::Impl::adopt(Parameter& parameter, const at::Tensor& view) {
  const at::Tensor before = std::exchange(parameter.view, view);
  if (before.defined() && parameter.tensor.grad().is_same(before)) {
    view.copy_(before);
    parameter.tensor.mutable_grad() = view;
  }
}

void Reducer::Impl::check_layout(const Parameter& parameter) const {
  const at::Tensor& gradient = parameter.tensor.grad();
  ARGOSY_CHECK(
      !gradient.defined() || gradient.is_sparse() == parameter.sparse,
      "[data_parallel] the gradient of ",
      parameter.name,
      " is ",
      gradient.is_sparse() ? "sparse" : "dense",
      ", expected a ",
      parameter.sparse ? "sparse" : "dense",
      " one: list parameters with sparse gradients in "
      "DataParallelOptions::sparse_parameters");
}

// Copies the gradient into the bucket, unless it was accumulated there.
void Reducer::Impl::take(std::size_t index) {
  Parameter& parameter = parameters[index];
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

// A gradient that accumulates in another type than it has (main_grad) does so
// in the bucket.
void Reducer::Impl::accumulate(std::size_t index) {
  Parameter& parameter = parameters[index];
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  if (gradient.defined() && gradient.scalar_type() != parameter.type) {
    take(index);
    gradient = parameter.view;
  }
}

void Reducer::Impl::launch(std::size_t index) {
  BucketState& bucket = buckets[index];
  if (!bucket.sparse) {
    bucket.in_flight = true;
    hook->start(bucket.gradients, options.group);
  }
}

void Reducer::Impl::finish() {
  for (BucketState& bucket : buckets) {
    finish(bucket);
  }
}

void Reducer::Impl::finish(BucketState& bucket) {
  const at::NoGradGuard no_grad;
  if (bucket.sparse) {
    Parameter& parameter = parameters[bucket.gradients.parameters.front()];
    parameter.tensor.mutable_grad() = average_sparse(
        parameter.tensor.grad(), parameter.tensor, options.group);
    return;
  }
  bucket.in_flight = false;
  hook->finish(bucket.gradients, options.group);
  if (divisor > 0) {
    bucket.gradients.flat.mul_(
        static_cast<double>(options.group->nranks()) / divisor);
  }
}

// The average becomes the gradient without a copy.
void Reducer::Impl::publish(std::size_t index) {
  Parameter& parameter = parameters[index];
  if (!parameter.sparse) {
    parameter.tensor.mutable_grad() = parameter.view;
  }
}

training::GradientSchedule Reducer::Impl::reschedule(
    const std::vector<std::size_t>& arrivals) {
  plan_anew(arrivals);
  return schedule_of(plan);
}

void Reducer::Impl::abandon() noexcept {
  for (BucketState& bucket : buckets) {
    if (!std::exchange(bucket.in_flight, false)) {
      continue;
    }
    try {
      hook->abandon(bucket.gradients, options.group);
    } catch (const std::exception& error) {
      // backward() already throws; the next use of the group fails as well.
      log::warn("[data_parallel] after a failed backward: ", error.what());
    }
  }
}

Reducer::Reducer(
    const std::vector<NamedTensor>& parameters, ReducerOptions options)
    : impl_(new Impl(parameters, std::move(options))) {}

Reducer::~Reducer() = default;

void Reducer::recover() {
  impl_->reduction.recover();
}

void Reducer::prepare(const Tensors& outputs) {
  training::GradientReduction& reduction = impl_->reduction;
  reduction.check_idle();
  if (!reduction.sync() || !reduction.needs_expectations()) {
    return;
  }
  const auto reached = reachable_nodes(outputs);
  for (std::size_t i = 0; i < impl_->parameters.size(); ++i) {
    reduction.expect(i, reached.count(reduction.node(i)) > 0);
  }
}

void Reducer::set_sync(bool sync) {
  impl_->reduction.set_sync(sync);
}

bool Reducer::sync() const {
  return impl_->reduction.sync();
}

void Reducer::set_divisor(int divisor) {
  impl_->divisor = divisor;
}

void Reducer::shadow() {
  impl_->reduction.reduce_zeros();
}

void Reducer::reduce() {
  impl_->reduction.reduce();
}

const BucketPlan& Reducer::plan() const {
  return impl_->plan;
}

void Reducer::zero_grad() {
  impl_->reduction.zero_grad();
}

} // namespace argosy::data_parallel
