#include "argosy/fleet/registry.h"

#include <algorithm>

#include <utility>
#include "argosy/common/error.h"

#include "argosy/data_parallel/data_parallel.h"
#include "argosy/fleet/spread_model.h"
#include "argosy/sharding/sharded_core.h"

namespace argosy::fleet {

namespace {

using Optimizers = std::vector<std::weak_ptr<RegisteredOptimizer>>;

// The user owns models and optimizers; here they may be gone at any time.
std::vector<std::shared_ptr<RegisteredOptimizer>> alive(const Optimizers& all) {
  std::vector<std::shared_ptr<RegisteredOptimizer>> result;
  for (const auto& each : all) {
    if (auto optimizer = each.lock()) {
      result.push_back(std::move(optimizer));
    }
  }
  return result;
}

bool any(const Optimizers& all, bool (RegisteredOptimizer::*asks)() const) {
  const auto optimizers = alive(all);
  return std::ranges::any_of(optimizers, [&](const auto& optimizer) {
    return ((*optimizer).*asks)();
  });
}

} // namespace

void DeferredHook::start(
    const data_parallel::GradBucket& bucket, const GroupPtr& group) {
  ARGOSY_CHECK(
      hook_,
      "[fleet.distributed_model] dgc needs the momentum of the optimizer: call "
      "distributed_optimizer() before backward()");
  hook_->start(bucket, group);
}

void DeferredHook::finish(
    const data_parallel::GradBucket& bucket, const GroupPtr& group) {
  hook_->finish(bucket, group);
}

void DeferredHook::abandon(
    const data_parallel::GradBucket& bucket, const GroupPtr& group) {
  if (hook_) { // else start() has thrown
    hook_->abandon(bucket, group);
  }
}

void DeferredHook::set_loss_scale(double scale) {
  if (hook_) {
    hook_->set_loss_scale(scale);
  }
}

void DeferredHook::settle(bool taken) {
  if (hook_) {
    hook_->settle(taken);
  }
}

data_parallel::HookMemory DeferredHook::memory() const {
  return hook_ ? hook_->memory() : data_parallel::HookMemory();
}

void DeferredHook::set_memory(const data_parallel::HookMemory& memory) {
  if (hook_) { // else there is no optimizer, and no step
    hook_->set_memory(memory);
  }
}

// Each model meets each optimizer once, when the later of the two is added. So
// it does not matter which the user makes first.
bool Registry::link(
    Model& model, const std::shared_ptr<RegisteredOptimizer>& with) {
  // One common parameter is enough: several optimizers may share a model.
  const auto& names = model.side.names;
  if (!std::ranges::any_of(
          names, [&](const auto& named) { return with->holds(named.first); })) {
    return false;
  }
  model.optimizers.push_back(with);
  if (const auto sharded = std::dynamic_pointer_cast<sharding::ShardedCore>(
          model.side.core.lock())) {
    with->shard(sharded);
  }
  if (const auto spread =
          std::dynamic_pointer_cast<SpreadCore>(model.side.core.lock())) {
    with->spread_over(spread);
  }
  if (model.side.served) {
    with->serve(model.side.served);
  }
  if (model.side.hook) {
    if (auto hook = with->hook()) {
      model.side.hook->set(std::move(hook));
    }
  }
  if (model.side.compression) {
    with->compress_with(model.side.compression);
  }
  return true;
}

void Registry::add(RegisteredModel side) {
  models_.push_back({std::move(side), {}});
  for (const auto& optimizer : alive(optimizers_)) {
    link(models_.back(), optimizer);
  }
  update_sync();
}

void Registry::add(const std::shared_ptr<RegisteredOptimizer>& optimizer) {
  bool is_linked = false;
  bool has_spread_models = false;
  for (Model& model : models_) {
    is_linked |= link(model, optimizer);
    has_spread_models |= model.side.is_spread && !model.side.core.expired();
  }
  ARGOSY_CHECK(
      is_linked || !has_spread_models,
      "[fleet.distributed_optimizer] the optimizer holds no parameter of a "
      "model. Make it from the model's parameters(), and call parallelize() "
      "without it: distributed_optimizer() shards its state");
  optimizers_.push_back(optimizer);
  update_sync();
}

bool Registry::is_held(ParameterId parameter) const {
  const auto optimizers = alive(optimizers_);
  return std::ranges::any_of(optimizers, [&](const auto& optimizer) {
    return optimizer->holds(parameter);
  });
}

std::string Registry::name_of(ParameterId parameter) const {
  for (const Model& model : models_) {
    const auto found = model.side.names.find(parameter);
    // Ids are addresses: those of a model that is gone may be in use again.
    if (found != model.side.names.end() && !model.side.core.expired()) {
      return found->second;
    }
  }
  return "";
}

void Registry::update_sync() const {
  for (const Model& model : models_) {
    if (const auto core = model.side.core.lock()) {
      // Without an optimizer here the user may have one of LibTorch, which
      // needs reduced gradients in every step.
      core->set_sync(
          !model.side.is_local &&
          (alive(model.optimizers).empty() ||
           any(model.optimizers, &RegisteredOptimizer::will_step)));
    }
  }
}

bool Registry::is_merging(const training::ModelCore* core) const {
  for (const Model& model : models_) {
    if (model.side.core.lock().get() == core) {
      return any(model.optimizers, &RegisteredOptimizer::is_merging);
    }
  }
  return false;
}

} // namespace argosy::fleet
