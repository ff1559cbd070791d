#include "argosy/training/gradient_reduction.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/observe/span.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/torch_hooks/graph_walk.h"
#include "argosy/training/step_errors.h"

namespace argosy::training {

GradientReduction::GradientReduction(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters,
    GradientReductionOptions options,
    BucketReducer& reducer)
    : options_(std::move(options)), reducer_(reducer) {
  for (const auto& [name, tensor] : parameters) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.name = name;
    parameter.tensor = tensor;
    if (tensor.defined()) {
      parameter.hook.emplace(tensor, [this, index = parameters_.size() - 1] {
        on_gradient(index);
      });
    }
  }
}

void GradientReduction::set_schedule(GradientSchedule schedule) {
  schedule_ = std::move(schedule);
  label_buckets();
}

// "gradients, bucket 0 (fc.weight ...)"
void GradientReduction::label_buckets() {
  labels_.clear();
  for (const auto& bucket : schedule_.buckets()) {
    const std::string names = bucket.empty()
        ? ""
        : str(" (",
              parameters_[bucket.front()].name,
              bucket.size() > 1 ? " ...)" : ")");
    labels_.emplace_back(str("gradients, bucket ", labels_.size(), names));
  }
}

// A rank that has not failed waits for buckets that this one never launches. A
// barrier matches none of them, so that the ranks notice that they disagree,
// instead of mixing the gradients of two steps.
void GradientReduction::recover() {
  for (const Parameter& parameter : parameters_) {
    if (parameter.hook) {
      parameter.hook->restore();
    }
  }
  if (!has_failed_) {
    return;
  }
  static const OpLabel label("check after a failed backward");
  const LabelScope scope(label);
  for (const GroupPtr& group : options_.groups) {
    barrier(group);
  }
  has_failed_ = false;
}

bool GradientReduction::needs_expectations() const {
  return allows_unused() && !usage_is_known_;
}

void GradientReduction::expect_from(const Tensors& outputs) {
  const auto reached = torch_hooks::reachable_nodes(outputs);
  for (Parameter& parameter : parameters_) {
    parameter.expected = reached.count(parameter.hook->node()) > 0;
  }
}

// Runs as a hook of autograd, after the gradient of a parameter has been
// accumulated, on the thread that runs backward. The first gradient of a pass
// begins the pass: autograd does not announce a backward.
void GradientReduction::on_gradient(std::size_t index) {
  if (!sync_) {
    reducer_.accumulate(index);
    return;
  }
  const Parameter& parameter = parameters_[index];
  ARGOSY_CHECK(
      !at::GradMode::is_enabled(),
      "{} backward with create_graph (double backward) cannot reduce "
      "gradients: use no_sync() and all_reduce them yourself",
      options_.tag);
  if (!under_way_) {
    begin_backward();
  }
  ARGOSY_CHECK(
      !usage_is_known_ || parameter.expected,
      "{} parameter {} got a gradient, but the first step did not use it: with "
      "static_graph all steps must use the same parameters",
      options_.tag,
      parameter.name);
  ARGOSY_CHECK(
      !schedule_.has_arrived(index),
      "{} the gradient of {} became ready twice in one backward: reentrant "
      "backward (recomputation) of shared parameters needs no_sync() and an "
      "all_reduce of your own",
      options_.tag,
      parameter.name);
  arrive(index, true);
}

void GradientReduction::begin() {
  recover();
  under_way_ = true;
  schedule_.begin();
  for (Parameter& parameter : parameters_) {
    parameter.used = false;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // Nothing will arrive for it: its bucket must not wait until the end.
    if (!parameters_[i].expected) {
      arrive(i, false);
    }
  }
}

void GradientReduction::begin_backward() {
  // Before begin(), whose barrier may throw: abandon() must run then too.
  torch_hooks::at_end_of_backward([this] { end(); }, [this] { abandon(); });
  is_backward_ = true;
  begin();
}

void GradientReduction::reduce() {
  const auto is_early = [](const Parameter& each) { return each.is_early; };
  if (std::ranges::any_of(parameters_, is_early)) {
    reduce_rest();
    return;
  }
  if (!usage_is_known_) {
    for (Parameter& parameter : parameters_) {
      parameter.expected = true; // what the last forward used does not matter
    }
  }
  reduce_accumulated(false, needs_expectations());
}

void GradientReduction::reduce_zeros() {
  zero_grad();
  reduce_accumulated(true, true);
}

// Bucket by bucket: sharding has memory for a few buckets at a time.
void GradientReduction::reduce_accumulated(
    bool is_backward, bool zeros_for_missing) {
  const at::NoGradGuard no_grad;
  // reduce_zeros() stands in for a backward of the other ranks, which then
  // broadcast their order: this rank must take part in that too.
  is_backward_ = is_backward;
  try {
    begin();
    for (const std::size_t bucket : schedule_.order()) {
      for (const std::size_t i : schedule_.buckets()[bucket]) {
        const bool used = parameters_[i].tensor.grad().defined();
        if (!schedule_.has_arrived(i) && (used || zeros_for_missing)) {
          arrive(i, used);
        }
      }
    }
    end();
  } catch (...) {
    abandon();
    throw;
  }
}

void GradientReduction::reduce_early(const std::set<std::size_t>& kept) {
  const at::NoGradGuard no_grad;
  try {
    recover();
    flush(kept);
  } catch (...) {
    abandon();
    throw;
  }
}

// What reduce_early() has left, and the end of what it began.
void GradientReduction::reduce_rest() {
  reduce_early({});
  std::vector<std::size_t> missing;
  for (const auto& bucket : schedule_.buckets()) {
    for (const std::size_t i : bucket) {
      if (!std::exchange(parameters_[i].is_early, false)) {
        missing.push_back(i);
      }
    }
  }
  if (!allows_unused()) {
    check_missing(missing);
  }
}

// By parameter: whether a gradient waits to be reduced; where ranks may differ,
// on any of them.
std::vector<bool> GradientReduction::waiting_gradients(
    const std::set<std::size_t>& kept) const {
  const at::Tensor waiting =
      at::zeros({static_cast<std::int64_t>(parameters_.size())}, at::kInt);
  auto* numbers = waiting.data_ptr<int>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& tensor = parameters_[i].tensor;
    numbers[i] =
        tensor.defined() && tensor.grad().defined() && kept.count(i) == 0;
  }
  for (const GroupPtr& group : options_.groups) {
    if (allows_unused()) {
      all_reduce(waiting, ReduceOp::MAX, group);
    }
  }
  return std::vector<bool>(numbers, numbers + parameters_.size());
}

// Reduces the buckets that have gradients. Other parameters of theirs count as
// zeros.
void GradientReduction::flush(const std::set<std::size_t>& kept) {
  const std::vector<bool> waiting = waiting_gradients(kept);
  const auto waits = [&](std::size_t i) { return waiting[i]; };
  for (const std::size_t bucket : schedule_.order()) {
    const std::vector<std::size_t>& members = schedule_.buckets()[bucket];
    if (std::ranges::none_of(members, waits)) {
      continue;
    }
    for (const std::size_t i : members) {
      at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
      const at::Tensor stays = kept.count(i) > 0
          ? std::exchange(gradient, at::Tensor())
          : at::Tensor();
      reducer_.take(i);
      gradient = stays;
    }
    reducer_.launch(bucket);
  }
  reducer_.finish();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (waiting[i]) {
      parameters_[i].is_early = true;
      reducer_.publish(i);
    }
  }
}

void GradientReduction::arrive(std::size_t index, bool used) {
  parameters_[index].used = used;
  reducer_.take(index);
  // The bucket may be full before its turn. Once it is launched, buckets behind
  // it that filled up earlier may follow at once.
  if (const auto full = schedule_.arrive(index)) {
    reducer_.on_full(*full);
  }
  while (const auto bucket = schedule_.next()) {
    const LabelScope scope(labels_[*bucket]);
    reducer_.launch(*bucket);
  }
}

// The end of a pass. share_used() starts before the wait, so that its small
// all_reduce overlaps with the last buckets. The pass counts as over before
// publish(): from there on, all ranks have all values.
void GradientReduction::end() {
  take_missing();
  const WorkPtr used = share_used();
  {
    const observe::Span span("wait for gradients", observe::Activity::Wait);
    static const OpLabel label("gradients");
    const LabelScope scope(label);
    in_each_step(
        [&] {
          reducer_.finish();
          if (used) {
            used->wait();
          }
        },
        options_.uneven_advice);
  }
  under_way_ = false;
  publish();
  follow_observed_order();
}

// Parameters without a gradient count as zeros, where that is allowed.
void GradientReduction::take_missing() {
  const std::vector<std::size_t> missing = schedule_.missing();
  if (needs_expectations()) {
    for (const std::size_t i : missing) {
      arrive(i, false);
    }
    return;
  }
  check_missing(missing);
}

void GradientReduction::check_missing(
    const std::vector<std::size_t>& missing) const {
  std::vector<std::string> names;
  for (const std::size_t i : missing) {
    names.push_back(parameters_[i].name);
  }
  ARGOSY_CHECK(
      missing.empty(),
      "{} backward ended without a gradient for {}: the loss does not depend "
      "on them. {}",
      options_.tag,
      join(names, ", "),
      usage_is_known_
          ? "With static_graph all steps must use the same parameters"
          : "Set find_unused_parameters, or exclude them by "
            "requires_grad_(false)");
}

// Starts to find out which parameters any rank has used.
WorkPtr GradientReduction::share_used() {
  WorkPtr work;
  if (!needs_expectations()) {
    return work;
  }
  static const OpLabel label("which parameters got a gradient");
  const LabelScope scope(label);
  used_by_any_ =
      at::zeros({static_cast<std::int64_t>(parameters_.size())}, at::kInt);
  auto* used = used_by_any_.data_ptr<int>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    used[i] = parameters_[i].used ? 1 : 0;
  }
  for (const GroupPtr& group : options_.groups) {
    if (work) {
      work->wait(); // the next group combines the results of this one
    }
    work = all_reduce(used_by_any_, ReduceOp::MAX, group, false);
  }
  return work;
}

void GradientReduction::publish() {
  const int* used =
      used_by_any_.defined() ? used_by_any_.data_ptr<int>() : nullptr;
  for (const auto& bucket : schedule_.buckets()) {
    for (const std::size_t i : bucket) {
      if (used == nullptr || used[i] != 0) {
        reducer_.publish(i);
      }
    }
  }
  if (options_.static_graph && !usage_is_known_) {
    // used_by_any_ stays as this pass has left it, for all later passes.
    usage_is_known_ = true;
    for (Parameter& parameter : parameters_) {
      parameter.expected = parameter.used || !parameter.hook;
    }
  }
}

// Once, after the first backward. All ranks follow the order of the first,
// because they must launch buckets in the same order. Only a backward with all
// parameters shows an order: reduce() goes through the buckets as they are, and
// unused parameters arrive before they would.
void GradientReduction::follow_observed_order() {
  if (order_is_known_ || !is_backward_ || allows_unused()) {
    return;
  }
  order_is_known_ = true;
  const std::vector<std::size_t>& arrivals = schedule_.arrivals();
  const at::Tensor order =
      at::empty({static_cast<std::int64_t>(arrivals.size())}, at::kLong);
  auto* places = order.data_ptr<std::int64_t>();
  std::copy(arrivals.begin(), arrivals.end(), places);
  const GroupPtr& group = options_.groups.front();
  static const OpLabel label("order of the gradients");
  const LabelScope scope(label);
  broadcast(order, group->ranks().front(), group);
  set_schedule(reducer_.reschedule(
      std::vector<std::size_t>(places, places + order.numel())));
}

void GradientReduction::abandon() noexcept {
  under_way_ = false;
  has_failed_ = true;
  reducer_.abandon();
}

void GradientReduction::zero_grad() {
  for (Parameter& parameter : parameters_) {
    parameter.is_early = false;
    if (parameter.tensor.defined()) {
      parameter.tensor.mutable_grad() = at::Tensor();
    }
  }
}

} // namespace argosy::training
