#include "argosy/sharding/param_memory.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data_parallel/bucket_memory.h"
#include "argosy/observe/span.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::sharding {

namespace {

using torch_hooks::is_in_backward;

std::vector<at::Tensor> params_of(
    const FlatPlan& plan, const std::vector<at::Tensor>& all) {
  std::vector<at::Tensor> params;
  for (const FlatEntry& entry : plan.entries) {
    params.push_back(all[entry.parameter]);
  }
  return params;
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
      } catch (const Error&) { // whoever waits for the group hears of it
      }
    }
  }
}

// Copies the values into one buffer.
Flat ParamMemory::make_flat(
    const FlatPlan& plan,
    const std::vector<at::Tensor>& params,
    bool resident) {
  Flat flat{.plan = plan, .params = params_of(plan, params)};
  flat.type = flat.params.front().scalar_type();
  flat.full = resident
      ? data_parallel::bucket_memory(
            static_cast<std::size_t>(plan.count), flat.type, group_)
      : pool_->take(plan.count, flat.type).zero_();
  for (std::size_t i = 0; i < flat.params.size(); ++i) {
    const at::Tensor place =
        optim::alias(flat.full, plan.entries[i].begin, flat.params[i]);
    place.copy_(flat.params[i]);
    if (resident) {
      flat.params[i].set_data(place);
    }
  }
  flat.shard = part_of(flat.full, group_->rank(), group_->nranks());
  return flat;
}

// Keeps this rank's part only.
void ParamMemory::cut(Flat& flat, std::size_t unit) {
  const at::Tensor part = shards_->make(flat.shard.numel(), flat.type);
  part.copy_(flat.shard);
  shards_->let_go(part, true);
  flat.shard = part;
  flat.storage = watched_storage(flat.plan.bytes(), weak_from_this(), unit);
  for (std::size_t i = 0; i < flat.params.size(); ++i) {
    move_into(flat.params[i], flat.storage, flat.plan.entries[i].begin);
  }
  pool_->give(flat.full);
  flat.full = at::Tensor();
}

std::shared_ptr<ParamMemory> ParamMemory::make(
    const std::vector<UnitPlan>& plan,
    const std::vector<at::Tensor>& params,
    GroupPtr group,
    std::shared_ptr<BufferPool> pool,
    std::shared_ptr<ShardMemory> shards) {
  const at::NoGradGuard no_grad;
  std::shared_ptr<ParamMemory> memory(
      new ParamMemory(std::move(group), std::move(pool), std::move(shards)));
  for (const UnitPlan& unit : plan) {
    Unit made{.name = unit.name, .resident = unit.resident};
    for (const FlatPlan& flat : unit.flats) {
      made.flats.push_back(memory->make_flat(flat, params, unit.resident));
      if (!unit.resident) {
        memory->cut(made.flats.back(), memory->units_.size());
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
    for (Flat& flat : unit.flats) {
      if (unit.resident && flat.plan.trainable) {
        works.push_back(all_gather(flat.full, flat.shard, group_, false));
      } else if (flat.plan.trainable) {
        shards_->let_go(flat.shard, true);
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
  for (Flat& flat : units_[unit].flats) {
    flat.full = pool_->take(flat.plan.count, flat.type);
    shards_->need(flat.shard);
    state.gathering.push_back(all_gather(flat.full, flat.shard, group_, false));
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
  for (Flat& flat : units_[unit].flats) {
    torch_hooks::set_memory(flat.storage, flat.full.data_ptr());
    shards_->let_go(flat.shard, false);
  }
}

void ParamMemory::release(std::size_t unit) {
  if (keeps_all_ || units_[unit].resident) {
    return;
  }
  finish(unit); // nobody writes to the buffer any more
  if (!states_[unit].is_whole) {
    return;
  }
  states_[unit].is_whole = false;
  for (Flat& flat : units_[unit].flats) {
    torch_hooks::set_memory(flat.storage, nullptr);
    pool_->give(flat.full);
    flat.full = at::Tensor();
  }
}

void ParamMemory::release_all() {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    release(unit);
  }
}

// Which unit comes next, if this pass goes as the last one did.
std::optional<std::size_t> ParamMemory::note_uses(
    const std::vector<std::size_t>& used) {
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
  const auto is_ready = [&](std::size_t unit) {
    return states_[unit].is_whole &&
        (keeps_all_ || (!pass_.empty() && pass_.back() == unit));
  };
  if (std::all_of(used.begin(), used.end(), is_ready) &&
      is_backward_ == is_in_backward()) {
    return;
  }
  for (const std::size_t unit : used) {
    start(unit);
  }
  const std::optional<std::size_t> next = note_uses(used);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (std::find(used.begin(), used.end(), unit) == used.end() &&
        next != unit) {
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

void ParamMemory::after_write(std::size_t unit) {
  const at::NoGradGuard no_grad;
  for (Flat& flat : units_[unit].flats) {
    if (flat.full.defined() && !units_[unit].resident) {
      shards_->need(flat.shard);
      flat.shard.copy_(part_of(flat.full, group_->rank(), group_->nranks()));
      shards_->let_go(flat.shard, true);
    }
  }
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
