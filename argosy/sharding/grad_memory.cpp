#include "argosy/sharding/grad_memory.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"
#include "argosy/data_parallel/bucket_memory.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/training/main_grads.h"
#include "argosy/training/parameter_marks.h"

// The way of a gradient through a pass:
//
// take() copies it into `whole`, the flat buffer of its bucket. launch() starts
// a reduce_scatter of the full bucket, which leaves 1/n of the averages on each
// of n ranks: in `part`, or in `incoming` while `part` still has gradients of
// earlier passes. retire_oldest() returns `whole` to the pool and averages the
// slice over the replicas. finish() adds `incoming` to `part`, and publish()
// makes `part` the gradients of the pieces that the optimizer steps.
namespace argosy::sharding {

namespace {

// One bucket is reduced while the next is filled: more would need more memory.
constexpr std::size_t kMostInFlight = 1;

} // namespace

GradMemory::GradMemory(
    std::vector<Unit>& units,
    const std::vector<ParameterInfo>& parameters,
    std::shared_ptr<BufferPool> pool,
    std::shared_ptr<ShardMemory> shards,
    GradOptions options,
    std::function<void(std::size_t)> on_complete)
    : pool_(std::move(pool)),
      shards_(std::move(shards)),
      options_(std::move(options)),
      on_complete_(std::move(on_complete)) {
  const at::NoGradGuard no_grad;
  for (const ParameterInfo& info : parameters) {
    parameters_.push_back({.name = info.name});
  }
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    for (const ShardedBucket& bucket : units[unit].buckets) {
      if (bucket.plan.trainable) {
        add(unit, bucket);
      }
    }
  }
  std::vector<std::pair<std::string, at::Tensor>> leaves;
  for (const Parameter& parameter : parameters_) {
    leaves.emplace_back(parameter.name, parameter.tensor);
  }
  std::vector<GroupPtr> groups{options_.group};
  if (options_.replicas) {
    groups.push_back(options_.replicas);
  }
  reduction_.emplace(
      leaves,
      training::GradientReductionOptions{
          .tag = "[sharding]",
          .groups = std::move(groups),
          .find_unused_parameters = options_.find_unused_parameters},
      static_cast<training::BucketReducer&>(*this));
  reduction_->set_schedule(schedule_of_buckets().ordered_by(
      training::expected_order(parameters_.size())));
}

GradMemory::~GradMemory() = default;

void GradMemory::add(std::size_t unit, const ShardedBucket& bucket) {
  BucketState state{
      .unit = unit,
      .is_expert = bucket.plan.is_expert,
      .count = bucket.plan.count,
      .type = training::grad_type(bucket.type, options_.main_grad)};
  if (options_.keeps_whole) {
    state.whole =
        data_parallel::bucket_memory(state.count, state.type, options_.group);
    state.part =
        part_of(state.whole, options_.group->rank(), options_.group->nranks());
  } else {
    state.part = shards_->make(bucket.shard.numel(), state.type);
    shards_->let_go(state.part, true);
  }
  for (std::size_t i = 0; i < bucket.params.size(); ++i) {
    const BucketEntry& entry = bucket.plan.entries[i];
    Parameter& parameter = parameters_[entry.parameter];
    parameter.tensor = bucket.params[i];
    parameter.bucket = buckets_.size();
    parameter.begin = entry.begin;
    if (options_.hook) {
      state.hooked.gradients.push_back(
          optim::alias(state.whole, entry.begin, bucket.params[i]));
      state.hooked.parameters.push_back(entry.parameter);
      state.hooked.values.push_back(bucket.params[i]);
    }
  }
  state.hooked.index = buckets_.size();
  state.hooked.flat = state.whole;
  make_pieces(state, bucket);
  buckets_.push_back(std::move(state));
}

void GradMemory::make_pieces(BucketState& state, const ShardedBucket& bucket) {
  for (const Piece& piece : pieces_of(
           bucket.plan, options_.group->rank(), options_.group->nranks())) {
    Parameter& parameter = parameters_[piece.parameter];
    const at::Tensor like = at::empty({piece.count}, bucket.shard.options());
    parameter.piece = pieces_.size();
    state.pieces.push_back(pieces_.size());
    piece_grads_.push_back(optim::alias(state.part, piece.in_part, like));
    pieces_.emplace_back(
        piece, optim::alias(bucket.shard, piece.in_part, like));
    // Clipping reads the marks of the tensors that the optimizer steps.
    set_marks(pieces_.back().second, marks_of(parameter.tensor));
  }
}

training::GradientSchedule GradMemory::schedule_of_buckets() const {
  std::vector<std::vector<std::size_t>> buckets(buckets_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].tensor.defined()) {
      buckets[parameters_[i].bucket].push_back(i);
    }
  }
  return training::GradientSchedule(std::move(buckets));
}

training::GradientSchedule GradMemory::reschedule(
    const std::vector<std::size_t>& arrivals) {
  return schedule_of_buckets().ordered_by(arrivals);
}

// Whether gradients of earlier passes wait for the optimizer's step.
bool GradMemory::has_gradient(const BucketState& bucket) const {
  return std::ranges::any_of(bucket.pieces, [&](std::size_t i) {
    return pieces_[i].second.grad().defined();
  });
}

at::Tensor& GradMemory::whole_of(BucketState& bucket) {
  if (!bucket.whole.defined()) {
    bucket.whole = pool_->take(bucket.count, bucket.type);
  }
  // With keeps_whole the slice lies in the buffer, which this pass overwrites.
  if (options_.keeps_whole && !bucket.incoming.defined() &&
      has_gradient(bucket)) {
    bucket.incoming = bucket.part.clone();
  }
  return bucket.whole;
}

// Moves the gradient into the buffer.
void GradMemory::keep(Parameter& parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  const at::Tensor place = optim::alias(
      whole_of(buckets_[parameter.bucket]), parameter.begin, parameter.tensor);
  if (!gradient.defined()) {
    place.zero_();
    return;
  }
  if (gradient.is_sparse()) {
    // Slices of a bucket are dense.
    place.copy_(gradient.to_dense());
    gradient = place;
  } else if (gradient.data_ptr() != place.data_ptr()) {
    place.copy_(gradient);
    gradient = place;
  }
}

// Without the reset, autograd would accumulate the next pass into `whole`,
// whose values are reduced by then.
void GradMemory::take(std::size_t index) {
  keep(parameters_[index]);
  parameters_[index].tensor.mutable_grad() = at::Tensor();
}

void GradMemory::accumulate(std::size_t index) {
  if (options_.keeps_whole) {
    keep(parameters_[index]);
  } else if (options_.main_grad) {
    training::widen_grad(parameters_[index].tensor);
  }
}

// When all gradients of a unit have arrived, this backward uses its parameters
// no more: on_complete_ may release them.
void GradMemory::on_full(std::size_t index) {
  const std::size_t unit = buckets_[index].unit;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i].unit == unit && !reduction_->schedule().is_full(i)) {
      return;
    }
  }
  on_complete_(unit);
}

void GradMemory::launch(std::size_t index) {
  // With keeps_whole every bucket has its own buffer, so none has to wait.
  while (in_flight_.size() >= kMostInFlight && !options_.keeps_whole) {
    retire_oldest();
  }
  const at::NoGradGuard no_grad;
  BucketState& bucket = buckets_[index];
  shards_->need(bucket.part);
  // `part` keeps its earlier gradients until finish(), so that abandon() can
  // discard the pass.
  at::Tensor out = bucket.part;
  if (!options_.keeps_whole && has_gradient(bucket)) {
    bucket.incoming = at::empty_like(bucket.part);
    out = bucket.incoming;
  }
  start_reducing(bucket, out);
  in_flight_.push_back(index);
}

void GradMemory::start_reducing(BucketState& bucket, const at::Tensor& out) {
  if (options_.hook) {
    bucket.is_in_hook = true;
    options_.hook->start(bucket.hooked, options_.group);
    return;
  }
  fault_point("sharding.reduce");
  const auto& sent = options_.sent_type;
  if (!sent || c10::elementSize(*sent) >= c10::elementSize(bucket.type)) {
    bucket.reducing =
        reduce_scatter(out, bucket.whole, ReduceOp::AVG, options_.group, false);
    return;
  }
  bucket.sent = bucket.whole.to(*sent);
  bucket.received = at::empty({out.numel()}, *sent);
  bucket.reducing = reduce_scatter(
      bucket.received, bucket.sent, ReduceOp::AVG, options_.group, false);
}

// A hook leaves the averages in `whole`, of which `out` is a part.
void GradMemory::end_reducing(BucketState& bucket) {
  if (bucket.is_in_hook) {
    options_.hook->finish(bucket.hooked, options_.group);
    bucket.is_in_hook = false;
    return;
  }
  bucket.reducing->wait();
  bucket.reducing = nullptr;
}

// Where this pass's slice is. With keeps_whole, `incoming` holds the old values
// and `part` the new.
at::Tensor GradMemory::fresh_part(const BucketState& bucket) const {
  const bool is_apart = !options_.keeps_whole && bucket.incoming.defined();
  return is_apart ? bucket.incoming : bucket.part;
}

// Waits until the oldest slice has arrived, which frees its buffer, and starts
// to average it over the replicas.
void GradMemory::retire_oldest() {
  BucketState& bucket = buckets_[in_flight_.front()];
  end_reducing(bucket);
  in_flight_.pop_front();
  bucket.sent = at::Tensor();
  const at::Tensor fresh =
      bucket.received.defined() ? bucket.received : fresh_part(bucket);
  if (bucket.is_expert && options_.expert_ranks > 1) {
    const at::NoGradGuard no_grad;
    fresh.div_(options_.expert_ranks);
  }
  const GroupPtr& replicas =
      bucket.is_expert ? options_.expert_replicas : options_.replicas;
  if (replicas) {
    static const OpLabel label("gradients, average over replicas");
    const LabelScope scope(label);
    bucket.averaging = all_reduce(fresh, ReduceOp::AVG, replicas, false);
  }
  if (!options_.keeps_whole) {
    pool_->give(bucket.whole);
    bucket.whole = at::Tensor();
  }
}

void GradMemory::finish() {
  const at::NoGradGuard no_grad;
  while (!in_flight_.empty()) {
    retire_oldest();
  }
  for (BucketState& bucket : buckets_) {
    if (bucket.averaging) {
      bucket.averaging->wait();
      bucket.averaging = nullptr;
    }
  }
  // All ranks have succeeded with all buckets: nothing fails from here on.
  for (BucketState& bucket : buckets_) {
    if (bucket.received.defined()) {
      fresh_part(bucket).copy_(bucket.received);
      bucket.received = at::Tensor();
    }
    if (bucket.incoming.defined()) {
      bucket.part.add_(bucket.incoming);
      bucket.incoming = at::Tensor();
    }
    shards_->let_go(bucket.part, true);
  }
}

void GradMemory::publish(std::size_t index) {
  if (const auto piece = parameters_[index].piece) {
    pieces_[*piece].second.mutable_grad() = piece_grads_[*piece];
  }
}

void GradMemory::abandon() noexcept {
  in_flight_.clear();
  for (BucketState& bucket : buckets_) {
    try {
      discard(bucket);
    } catch (const std::exception& error) {
      // backward() already throws; the next use of the group fails as well.
      log::warn("[sharding] after a failed backward: ", error.what());
    }
  }
}

// Restores what the slice had before the pass.
void GradMemory::discard(BucketState& bucket) {
  const at::NoGradGuard no_grad;
  const at::Tensor incoming = std::exchange(bucket.incoming, at::Tensor());
  if (std::exchange(bucket.is_in_hook, false)) {
    options_.hook->abandon(bucket.hooked, options_.group);
  }
  // Wait first: what is under way still writes to the slice and the buffer.
  for (WorkPtr* work : {&bucket.reducing, &bucket.averaging}) {
    if (const WorkPtr started = std::exchange(*work, nullptr)) {
      started->wait();
    }
  }
  bucket.sent = at::Tensor();
  bucket.received = at::Tensor();
  if (options_.keeps_whole) {
    if (incoming.defined()) {
      bucket.part.copy_(incoming);
    }
    return;
  }
  if (bucket.whole.defined()) {
    pool_->give(bucket.whole);
    bucket.whole = at::Tensor();
  }
  shards_->let_go(bucket.part, false);
}

void GradMemory::zero_grad() {
  reduction_->zero_grad();
  for (auto& [piece, tensor] : pieces_) {
    tensor.mutable_grad() = at::Tensor();
  }
}

} // namespace argosy::sharding
