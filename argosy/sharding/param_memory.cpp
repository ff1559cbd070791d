#include "argosy/sharding/param_memory.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/data_parallel/bucket_memory.h"
#include "argosy/observe/span.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

// A unit that is not resident goes through three states: released (storage
// without memory), gathering (start() has taken buffers and called all_gather),
// whole (finish() has waited and given the storage the buffers). release()
// leads back. Parameters stay the same tensors all the time, so handles in
// modules, in optimizers and in the graph remain valid.
namespace argosy::sharding {

namespace {

using torch_hooks::is_in_backward;

std::vector<at::Tensor> params_of(
    const Bucket& plan, const std::vector<at::Tensor>& all) {
  std::vector<at::Tensor> params;
  for (const BucketEntry& entry : plan.entries) {
    params.push_back(all[entry.parameter]);
  }
  return params;
}

void check_shape(const at::Tensor& value, at::IntArrayRef sizes) {
  ARGOSY_CHECK(
      value.sizes() == sizes,
      "[sharding] torch::load or set_() gives a parameter of a sharded model "
      "the shape {}, expected {}",
      value.sizes(),
      sizes);
}

std::size_t index_of(const Bucket& plan, std::size_t parameter) {
  const auto entry =
      std::ranges::find(plan.entries, parameter, &BucketEntry::parameter);
  return static_cast<std::size_t>(entry - plan.entries.begin());
}

// Elements of a dense tensor, in the order of its memory.
at::Tensor flat_range(
    const at::Tensor& tensor, std::int64_t begin, std::int64_t count) {
  return tensor.as_strided({count}, {1}, tensor.storage_offset() + begin);
}

} // namespace

ParamMemory::ParamMemory(
    GroupPtr group,
    std::shared_ptr<BufferPool> pool,
    std::shared_ptr<ShardMemory> shards)
    : group_(std::move(group)),
      pool_(std::move(pool)),
      shards_(std::move(shards)) {}

ParamMemory::~ParamMemory() {
  for (const State& state : states_) {
    for (const WorkPtr& work : state.gathering) {
      try {
        work->wait();
      } catch (const Error&) { // the next wait for the group throws it
      }
    }
  }
}

// Copies the values of the parameters into one buffer.
ShardedBucket ParamMemory::make_bucket(
    const Bucket& plan,
    const std::vector<at::Tensor>& params,
    bool resident,
    const Prepare& prepare) {
  ShardedBucket bucket{.plan = plan, .params = params_of(plan, params)};
  bucket.type = bucket.params.front().scalar_type();
  bucket.full = resident
      ? data_parallel::bucket_memory(plan.count, bucket.type, group_)
      : pool_->take(plan.count, bucket.type).zero_();
  for (std::size_t i = 0; i < bucket.params.size(); ++i) {
    prepare(plan.entries[i].parameter);
    const at::Tensor place =
        optim::alias(bucket.full, plan.entries[i].begin, bucket.params[i]);
    place.copy_(bucket.params[i]);
    bucket.params[i].set_data(place); // its own memory is free now
    if (resident) {
      bucket.places.push_back(place);
    }
  }
  bucket.shard = part_of(bucket.full, group_->rank(), group_->nranks());
  return bucket;
}

// Keeps only this rank's slice of the buffer.
void ParamMemory::cut(ShardedBucket& bucket, std::size_t unit) {
  const at::Tensor part = shards_->make(bucket.shard.numel(), bucket.type);
  // The shard is a slice of a buffer of the pool; copy it out before the buffer
  // goes back.
  part.copy_(bucket.shard);
  shards_->let_go(part, true);
  bucket.shard = part;
  bucket.storage = watched_storage(bucket.plan.bytes(), weak_from_this(), unit);
  for (std::size_t i = 0; i < bucket.params.size(); ++i) {
    move_into(bucket.params[i], bucket.storage, bucket.plan.entries[i].begin);
  }
  pool_->give(bucket.full);
  bucket.full = at::Tensor();
}

// Not a constructor: cut() needs weak_from_this(), which works once a
// shared_ptr owns the object. Units are cut one by one, so that one parameter
// at a time exists twice.
std::shared_ptr<ParamMemory> ParamMemory::make(
    const std::vector<UnitPlan>& plan,
    const std::vector<at::Tensor>& params,
    GroupPtr group,
    std::shared_ptr<BufferPool> pool,
    std::shared_ptr<ShardMemory> shards,
    const Prepare& prepare) {
  const at::NoGradGuard no_grad;
  std::shared_ptr<ParamMemory> memory(
      new ParamMemory(std::move(group), std::move(pool), std::move(shards)));
  for (const UnitPlan& unit : plan) {
    Unit made{.name = unit.name, .resident = unit.resident};
    made.label = OpLabel(str("parameters of ", unit.name));
    for (const Bucket& bucket : unit.buckets) {
      made.buckets.push_back(
          memory->make_bucket(bucket, params, unit.resident, prepare));
      if (!unit.resident) {
        memory->cut(made.buckets.back(), memory->units_.size());
      }
    }
    memory->units_.push_back(std::move(made));
  }
  memory->states_.resize(plan.size());
  return memory;
}

void ParamMemory::take_step() {
  std::vector<WorkPtr> works;
  for (Unit& unit : units_) {
    const LabelScope scope(unit.label);
    for (ShardedBucket& bucket : unit.buckets) {
      if (unit.resident && bucket.plan.trainable) {
        works.push_back(all_gather(bucket.full, bucket.shard, group_, false));
      } else if (bucket.plan.trainable) {
        shards_->let_go(bucket.shard, true);
      }
    }
  }
  const observe::Span span("wait for parameters", observe::Activity::Wait);
  for (const WorkPtr& work : works) {
    work->wait();
  }
}

void ParamMemory::start(std::size_t unit) {
  State& state = states_[unit];
  if (state.is_whole || !state.gathering.empty() || units_[unit].resident) {
    return;
  }
  fault_point("sharding.gather");
  const LabelScope scope(units_[unit].label);
  for (ShardedBucket& bucket : units_[unit].buckets) {
    bucket.full = pool_->take(bucket.plan.count, bucket.type);
    shards_->need(bucket.shard);
    state.gathering.push_back(
        all_gather(bucket.full, bucket.shard, group_, false));
  }
}

void ParamMemory::finish(std::size_t unit) {
  State& state = states_[unit];
  if (state.gathering.empty()) {
    return;
  }
  const observe::Span span("wait for parameters", observe::Activity::Wait);
  for (const WorkPtr& work : state.gathering) {
    work->wait();
  }
  state.gathering.clear();
  state.is_whole = true;
  for (ShardedBucket& bucket : units_[unit].buckets) {
    torch_hooks::set_memory(bucket.storage, bucket.full.data_ptr());
    shards_->let_go(bucket.shard, false);
  }
}

void ParamMemory::release(std::size_t unit) {
  if (keeps_all_ || units_[unit].resident) {
    return;
  }
  finish(unit); // a gather would go on writing to the buffer
  if (!states_[unit].is_whole) {
    return;
  }
  states_[unit].is_whole = false;
  for (ShardedBucket& bucket : units_[unit].buckets) {
    torch_hooks::set_memory(bucket.storage, nullptr);
    pool_->give(bucket.full);
    bucket.full = at::Tensor();
  }
}

void ParamMemory::release_all() {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    release(unit);
  }
}

// Predicts the next unit: the one that followed in the last pass, if this pass
// has used the same units so far.
std::optional<std::size_t> ParamMemory::note_uses(
    const std::vector<std::size_t>& used) {
  // Forward and backward use units in different orders, so each has its own
  // record. Recomputation inside of backward counts as backward.
  if (is_backward_ != is_in_backward()) {
    begin_pass();
    is_backward_ = !is_backward_;
  }
  for (const std::size_t unit : used) {
    if (pass_.empty() || pass_.back() != unit) {
      pass_.push_back(unit);
    }
  }
  const std::vector<std::size_t>& before = passes_[is_backward_ ? 1 : 0];
  const std::size_t n = pass_.size();
  return n < before.size() && before[n - 1] == pass_.back()
      ? std::optional(before[n])
      : std::nullopt;
}

void ParamMemory::begin_pass() {
  if (!pass_.empty()) {
    passes_[is_backward_ ? 1 : 0] = std::move(pass_);
    pass_.clear();
  }
}

void ParamMemory::before_use(const std::vector<std::size_t>& used) {
  // The fast path: most ops use the unit that the op before has used.
  const auto is_ready = [&](std::size_t unit) {
    return states_[unit].is_whole &&
        (keeps_all_ || (!pass_.empty() && pass_.back() == unit));
  };
  if (std::ranges::all_of(used, is_ready) && is_backward_ == is_in_backward()) {
    return;
  }
  for (const std::size_t unit : used) {
    start(unit);
  }
  // Start this gather before anything is released, so that it is under way
  // first; start the next unit's only afterwards, when its buffer may be free.
  const std::optional<std::size_t> next = note_uses(used);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (std::ranges::find(used, unit) == used.end() && next != unit) {
      release(unit);
    }
  }
  if (next) {
    start(*next);
  }
  for (const std::size_t unit : used) {
    finish(unit);
  }
}

// Only the shard survives release(), so a write to a whole parameter (load,
// initialisation) must reach it at once.
void ParamMemory::after_write(std::size_t unit) {
  const at::NoGradGuard no_grad;
  for (ShardedBucket& bucket : units_[unit].buckets) {
    if (bucket.full.defined() && !units_[unit].resident) {
      shards_->need(bucket.shard);
      bucket.shard.copy_(
          part_of(bucket.full, group_->rank(), group_->nranks()));
      shards_->let_go(bucket.shard, true);
    }
  }
}

// Without a gather: each rank has read the whole value, and takes its piece.
void ParamMemory::take_value(
    std::size_t unit, const at::Tensor& tensor, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  check_shape(value, tensor.sizes());
  finish(unit); // a gather would write old values
  // In the order of the parameter's memory.
  const at::Tensor ordered =
      at::empty_strided(tensor.sizes(), tensor.strides(), value.options());
  ordered.copy_(value);
  for (ShardedBucket& bucket : units_[unit].buckets) {
    for (const Piece& piece :
         pieces_of(bucket.plan, group_->rank(), group_->nranks())) {
      const std::size_t i = index_of(bucket.plan, piece.parameter);
      if (bucket.params[i].is_same(tensor)) {
        shards_->need(bucket.shard);
        bucket.shard.narrow(0, piece.in_part, piece.count)
            .copy_(flat_range(ordered, piece.from, piece.count));
        shards_->let_go(bucket.shard, true);
      }
    }
    for (std::size_t i = 0; i < bucket.params.size(); ++i) {
      if (bucket.params[i].is_same(tensor) && bucket.full.defined()) {
        optim::alias(bucket.full, bucket.plan.entries[i].begin, tensor)
            .copy_(ordered);
      }
    }
  }
}

void ParamMemory::adopt_values() {
  const at::NoGradGuard no_grad;
  std::exception_ptr failure;
  for (Unit& unit : units_) {
    for (ShardedBucket& bucket : unit.buckets) {
      for (std::size_t i = 0; i < bucket.places.size(); ++i) {
        const at::Tensor& place = bucket.places[i];
        const at::Tensor& param = bucket.params[i];
        if (param.storage().is_alias_of(place.storage())) {
          continue;
        }
        try {
          check_shape(param, place.sizes());
          place.copy_(param);
        } catch (...) {
          failure = std::current_exception();
        }
        param.set_data(place);
      }
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

// Also where the unit happens to be whole: whether a save works must not depend
// on how many units a model has.
void ParamMemory::before_save(const std::string& name) const {
  ARGOSY_CHECK(
      keeps_all_,
      "[sharding] torch::save of parameter {} on rank {} of {}, which holds a "
      "part of its values (p_g_os). Save while `const auto whole = "
      "model.whole();` lives, which all ranks make, or call "
      "save_group_sharded_model(). A file that torch::save has opened is empty",
      name,
      group_->rank(),
      group_->nranks());
}

void ParamMemory::begin_whole() {
  keeps_all_ = true;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    start(unit);
    finish(unit);
  }
}

void ParamMemory::end_whole() {
  keeps_all_ = false;
  release_all();
}

} // namespace argosy::sharding
