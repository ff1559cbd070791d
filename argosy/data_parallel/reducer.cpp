#include "argosy/data_parallel/reducer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/data_parallel/bucket_hook.h"
#include "argosy/data_parallel/bucket_memory.h"
#include "argosy/data_parallel/sparse_average.h"
#include "argosy/observe/span.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/torch_hooks/grad_hook.h"
#include "argosy/torch_hooks/graph_walk.h"
#include "argosy/training/main_grads.h"

namespace argosy::data_parallel {

namespace {

struct Parameter {
  std::string name;
  at::Tensor tensor;
  std::optional<torch_hooks::GradHook> hook;
  bool sparse = false;
  c10::ScalarType type = c10::kFloat; // of the gradient

  // Of the current plan.
  std::size_t bucket = 0;
  at::Tensor view; // of the bucket's memory; none for sparse gradients

  // Of the current backward.
  bool ready = false;
  bool used = true;
};

struct BucketState {
  BucketView view;
  bool sparse = false;
  std::size_t pending = 0; // gradients that are not there yet
};

ParameterInfo info_of(const Parameter& parameter) {
  return {
      .name = parameter.name,
      .count = static_cast<std::size_t>(parameter.tensor.numel()),
      .element = c10::elementSize(parameter.type),
      .type = c10::toString(parameter.type),
      .sparse = parameter.sparse};
}

} // namespace

struct Reducer::Impl {
  explicit Impl(ReducerOptions its_options)
      : options(std::move(its_options)),
        hook(options.hook ? options.hook : make_all_reduce_hook()) {}

  const ReducerOptions options;
  const std::shared_ptr<BucketHook> hook;
  std::vector<Parameter> parameters;
  BucketPlan plan;
  std::vector<BucketState> buckets;
  int divisor = 0;
  bool sync = true;

  // Of the current backward.
  bool under_way = false;
  std::size_t next_bucket = 0; // to be started
  std::vector<std::size_t> ready_order;
  at::Tensor used_mask; // see finds_unused()
  WorkPtr mask_work;

  bool order_is_known = false;
  bool mask_is_known = false; // of a static graph, after its first step

  bool finds_unused() const {
    return options.find_unused_parameters || options.static_graph;
  }
  void add(const NamedTensor& named);
  std::vector<ParameterInfo> infos() const;
  void lay_out(const BucketPlan& new_plan);
  void find_unused(const Tensors& outputs);
  void on_gradient(std::size_t index);
  void begin();
  void begin_backward();
  void reduce();
  void mark_ready(std::size_t index);
  void take_gradient(Parameter& parameter);
  void keep_gradient(Parameter& parameter);
  void start_full_buckets();
  void start_bucket(BucketState& bucket);
  void finish_backward();
  void finish_bucket(BucketState& bucket);
  void check_all_started() const;
  void adopt_gradients();
  void share_used_mask();
  void follow_observed_order();
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
  const std::size_t index = parameters.size();
  parameter.hook.emplace(
      parameter.tensor, [this, index] { on_gradient(index); });
  parameters.push_back(std::move(parameter));
}

std::vector<ParameterInfo> Reducer::Impl::infos() const {
  std::vector<ParameterInfo> result;
  for (const Parameter& parameter : parameters) {
    result.push_back(info_of(parameter));
  }
  return result;
}

// Memory for the plan; gradients that exist move into it.
void Reducer::Impl::lay_out(const BucketPlan& new_plan) {
  std::vector<BucketState> fresh;
  for (const Bucket& bucket : new_plan.buckets) {
    BucketState state;
    state.view.index = fresh.size();
    state.sparse = bucket.sparse;
    if (!bucket.sparse) {
      state.view.flat = bucket_memory(
          bucket.count,
          parameters[bucket.entries.front().parameter].type,
          options.group);
    }
    for (const BucketEntry& entry : bucket.entries) {
      Parameter& parameter = parameters[entry.parameter];
      parameter.bucket = fresh.size();
      state.view.parameters.push_back(entry.parameter);
      if (bucket.sparse) {
        continue;
      }
      const at::Tensor before = parameter.view;
      parameter.view =
          bucket_part(state.view.flat, entry.begin, parameter.tensor.sizes());
      state.view.gradients.push_back(parameter.view);
      if (before.defined() && parameter.tensor.grad().is_same(before)) {
        parameter.view.copy_(before);
        parameter.tensor.mutable_grad() = parameter.view;
      }
    }
    fresh.push_back(std::move(state));
  }
  plan = new_plan;
  buckets = std::move(fresh);
}

void Reducer::Impl::find_unused(const Tensors& outputs) {
  if (mask_is_known) {
    return;
  }
  const auto reached = torch_hooks::reachable_nodes(outputs);
  for (Parameter& parameter : parameters) {
    parameter.used = reached.count(parameter.hook->node()) > 0;
  }
}

void Reducer::Impl::on_gradient(std::size_t index) {
  if (!sync) {
    keep_gradient(parameters[index]);
    return;
  }
  ARGOSY_CHECK(
      !at::GradMode::is_enabled(),
      "[parallel.data] backward with create_graph (double backward) cannot be "
      "averaged over the ranks: use no_sync() and all_reduce the gradients "
      "yourself");
  if (!under_way) {
    begin_backward();
  }
  ARGOSY_CHECK(
      !mask_is_known || parameters[index].used,
      "[parallel.data] a gradient of ",
      parameters[index].name,
      ", which the first step did not use: with static_graph all steps must "
      "use the same parameters");
  ARGOSY_CHECK(
      !parameters[index].ready,
      "[parallel.data] the gradient of ",
      parameters[index].name,
      " became ready twice in one backward: reentrant backward (recomputation) "
      "of shared parameters needs no_sync() and an all_reduce of your own");
  parameters[index].used = true;
  ready_order.push_back(index);
  mark_ready(index);
  start_full_buckets();
}

void Reducer::Impl::begin() {
  under_way = true;
  next_bucket = 0;
  ready_order.clear();
  for (Parameter& parameter : parameters) {
    parameter.ready = false;
  }
  for (BucketState& bucket : buckets) {
    bucket.pending = bucket.view.parameters.size();
  }
  if (finds_unused()) {
    share_used_mask();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].used) {
        mark_ready(i);
      }
    }
  }
}

void Reducer::Impl::begin_backward() {
  begin();
  torch_hooks::at_end_of_backward([this] { finish_backward(); });
}

void Reducer::Impl::reduce() {
  if (!mask_is_known) {
    for (Parameter& parameter : parameters) {
      parameter.used = parameter.tensor.grad().defined();
    }
  }
  begin();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].ready && parameters[i].tensor.grad().defined()) {
      mark_ready(i);
    }
  }
  start_full_buckets();
  finish_backward();
}

// Which parameters any rank uses; the answer is needed at the end.
void Reducer::Impl::share_used_mask() {
  if (mask_is_known) {
    return;
  }
  used_mask =
      at::zeros({static_cast<std::int64_t>(parameters.size())}, at::kInt);
  auto* mask = used_mask.data_ptr<int>();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    mask[i] = parameters[i].used ? 1 : 0;
  }
  mask_work = all_reduce(used_mask, ReduceOp::MAX, options.group, false);
}

void Reducer::Impl::mark_ready(std::size_t index) {
  Parameter& parameter = parameters[index];
  parameter.ready = true;
  take_gradient(parameter);
  --buckets[parameter.bucket].pending;
}

// Puts the gradient into the bucket, unless it was added up there already.
void Reducer::Impl::take_gradient(Parameter& parameter) {
  const at::Tensor& gradient = parameter.tensor.grad();
  if (gradient.defined() && gradient.is_sparse() != parameter.sparse) {
    throw InvalidArgument(
        str("[parallel.data] the gradient of ",
            parameter.name,
            " is ",
            gradient.is_sparse() ? "sparse" : "dense",
            ", which the wrapper was not told: see "
            "DataParallelOptions::sparse_parameters"));
  }
  if (parameter.sparse) {
    return;
  }
  if (!gradient.defined()) {
    parameter.view.zero_();
  } else if (gradient.data_ptr() != parameter.view.data_ptr()) {
    const at::NoGradGuard no_grad;
    parameter.view.copy_(gradient);
  }
}

// One that waits for others of another type does so in the bucket.
void Reducer::Impl::keep_gradient(Parameter& parameter) {
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  if (gradient.defined() && gradient.scalar_type() != parameter.type) {
    take_gradient(parameter);
    gradient = parameter.view;
  }
}

void Reducer::Impl::start_full_buckets() {
  while (next_bucket < buckets.size() && buckets[next_bucket].pending == 0) {
    start_bucket(buckets[next_bucket++]);
  }
}

void Reducer::Impl::start_bucket(BucketState& bucket) {
  if (!bucket.sparse) {
    hook->start(bucket.view, options.group);
  }
}

void Reducer::Impl::check_all_started() const {
  if (next_bucket == buckets.size()) {
    return;
  }
  std::vector<std::string> missing;
  for (const Parameter& parameter : parameters) {
    if (!parameter.ready) {
      missing.push_back(parameter.name);
    }
  }
  throw InvalidArgument(str(
      "[parallel.data] backward ended without a gradient for ",
      join(missing, ", "),
      ": the loss does not depend on them. ",
      mask_is_known ? "With static_graph all steps must use the same parameters"
                    : "Set find_unused_parameters, or leave them out by "
                      "requires_grad_(false)"));
}

void Reducer::Impl::finish_backward() {
  under_way = false;
  check_all_started();
  {
    const observe::Span span("wait for gradients", observe::Activity::Wait);
    for (BucketState& bucket : buckets) {
      finish_bucket(bucket);
    }
  }
  adopt_gradients();
  follow_observed_order();
}

void Reducer::Impl::finish_bucket(BucketState& bucket) {
  const at::NoGradGuard no_grad;
  if (bucket.sparse) {
    Parameter& parameter = parameters[bucket.view.parameters.front()];
    parameter.tensor.mutable_grad() = average_sparse(
        parameter.tensor.grad(), parameter.tensor, options.group);
    return;
  }
  hook->finish(bucket.view, options.group);
  if (divisor > 0) {
    bucket.view.flat.mul_(
        static_cast<double>(options.group->nranks()) / divisor);
  }
}

// The averages become the gradients, without a copy. What no rank used keeps
// the gradient that it had.
void Reducer::Impl::adopt_gradients() {
  if (mask_work) {
    mask_work->wait();
    mask_work = nullptr;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = parameters[i];
    const bool used_by_any = !used_mask.defined() ||
        used_mask.data_ptr<int>()[static_cast<std::int64_t>(i)] != 0;
    if (!parameter.sparse && used_by_any) {
      parameter.tensor.mutable_grad() = parameter.view;
    }
  }
  mask_is_known = options.static_graph;
  if (!mask_is_known) {
    used_mask = at::Tensor();
  }
}

// Once: buckets in the order in which the first backward had the gradients.
// Rank 0's order, so that all ranks have the same.
void Reducer::Impl::follow_observed_order() {
  if (order_is_known || finds_unused() ||
      ready_order.size() != parameters.size()) {
    return;
  }
  order_is_known = true;
  at::Tensor order =
      at::empty({static_cast<std::int64_t>(parameters.size())}, at::kLong);
  auto* places = order.data_ptr<std::int64_t>();
  std::copy(ready_order.begin(), ready_order.end(), places);
  broadcast(order, options.group->ranks().front(), options.group);
  const BucketPlan better = plan_buckets(
      infos(),
      std::vector<std::size_t>(places, places + order.numel()),
      options.fusion);
  if (better != plan) {
    lay_out(better);
  }
}

Reducer::Reducer(std::vector<NamedTensor> parameters, ReducerOptions options)
    : impl_(new Impl(std::move(options))) {
  for (const NamedTensor& named : parameters) {
    impl_->add(named);
  }
  impl_->lay_out(plan_buckets(
      impl_->infos(),
      expected_order(parameters.size()),
      impl_->options.fusion));
}

Reducer::~Reducer() = default;

void Reducer::prepare(const Tensors& outputs) {
  ARGOSY_CHECK(
      !impl_->under_way,
      "[parallel.data] the last backward did not come to its end");
  if (impl_->finds_unused() && impl_->sync) {
    impl_->find_unused(outputs);
  }
}

void Reducer::set_sync(bool sync) {
  impl_->sync = sync;
}

bool Reducer::sync() const {
  return impl_->sync;
}

void Reducer::set_divisor(int divisor) {
  impl_->divisor = divisor;
}

void Reducer::shadow() {
  if (impl_->finds_unused() && !impl_->mask_is_known) {
    for (Parameter& parameter : impl_->parameters) {
      parameter.used = false;
    }
    impl_->share_used_mask();
  }
  for (Parameter& parameter : impl_->parameters) {
    parameter.tensor.mutable_grad() = at::Tensor();
  }
  for (BucketState& bucket : impl_->buckets) {
    if (!bucket.sparse) {
      bucket.view.flat.zero_();
    }
    impl_->start_bucket(bucket);
  }
  for (BucketState& bucket : impl_->buckets) {
    impl_->finish_bucket(bucket);
  }
  impl_->adopt_gradients();
  impl_->ready_order = expected_order(impl_->parameters.size());
  impl_->follow_observed_order(); // with those who had gradients
}

void Reducer::reduce() {
  const at::NoGradGuard no_grad;
  impl_->reduce();
}

const BucketPlan& Reducer::plan() const {
  return impl_->plan;
}

void Reducer::zero_grad() {
  for (Parameter& parameter : impl_->parameters) {
    parameter.tensor.mutable_grad() = at::Tensor();
  }
}

} // namespace argosy::data_parallel
