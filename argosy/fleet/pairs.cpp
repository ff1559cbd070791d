#include "argosy/fleet/pairs.h"

#include <algorithm>
#include <utility>

#include "argosy/data_parallel/data_parallel.h"
#include "argosy/fleet/late_hook.h"
#include "argosy/sharding/sharded_core.h"

namespace argosy::fleet {

namespace {

using Optimizers = std::vector<std::weak_ptr<OptimizerSide>>;

std::vector<std::shared_ptr<OptimizerSide>> alive(const Optimizers& all) {
  std::vector<std::shared_ptr<OptimizerSide>> result;
  for (const auto& each : all) {
    if (auto optimizer = each.lock()) {
      result.push_back(std::move(optimizer));
    }
  }
  return result;
}

bool any(const Optimizers& all, bool (OptimizerSide::*asks)() const) {
  const auto optimizers = alive(all);
  return std::any_of(
      optimizers.begin(), optimizers.end(), [&](const auto& optimizer) {
        return ((*optimizer).*asks)();
      });
}

} // namespace

void Pairs::link(Model& model, const std::shared_ptr<OptimizerSide>& with) {
  const auto& names = model.side.names;
  if (!std::any_of(names.begin(), names.end(), [&](const auto& named) {
        return with->holds(named.first);
      })) {
    return;
  }
  model.optimizers.push_back(with);
  if (const auto sharded = std::dynamic_pointer_cast<sharding::ShardedCore>(
          model.side.core.lock())) {
    with->shard(sharded);
  }
  if (model.side.hook) {
    if (auto hook = with->hook()) {
      model.side.hook->set(std::move(hook));
    }
  }
}

void Pairs::add(ModelSide side) {
  models_.push_back({std::move(side), {}});
  for (const auto& optimizer : alive(optimizers_)) {
    link(models_.back(), optimizer);
  }
  settle();
}

void Pairs::add(const std::shared_ptr<OptimizerSide>& optimizer) {
  optimizers_.push_back(optimizer);
  for (Model& model : models_) {
    link(model, optimizer);
  }
  settle();
}

std::string Pairs::name_of(ParameterId parameter) const {
  for (const Model& model : models_) {
    const auto found = model.side.names.find(parameter);
    if (found != model.side.names.end() && !model.side.core.expired()) {
      return found->second;
    }
  }
  return "";
}

void Pairs::settle() const {
  for (const Model& model : models_) {
    if (const auto core = model.side.core.lock()) {
      core->set_sync(
          !model.side.is_local &&
          (alive(model.optimizers).empty() ||
           any(model.optimizers, &OptimizerSide::will_step)));
    }
  }
}

bool Pairs::is_merging(const training::ModelCore* core) const {
  for (const Model& model : models_) {
    if (model.side.core.lock().get() == core) {
      return any(model.optimizers, &OptimizerSide::is_merging);
    }
  }
  return false;
}

} // namespace argosy::fleet
