// How fleet's models and optimizers enter a checkpoint.

#include "argosy/checkpoint/state.h"
#include "argosy/fleet/optimizer.h"
#include "argosy/fleet/pipeline_model.h"
#include "argosy/fleet/strategy.h"

namespace argosy::fleet {

void add_to(
    checkpoint::State& state,
    const std::string& name,
    DistributedOptimizer& optimizer) {
  const auto named = [&](const char* kind) {
    return name.empty() ? std::string(kind) : name + '_' + kind;
  };
  state.add_optimizer(name.empty() ? "optimizer" : name, optimizer.optimizer());
  if (optimizer.scaler() != nullptr) {
    state.add_scaler(named("scaler"), *optimizer.scaler());
  }
  if (optimizer.ema() != nullptr) {
    state.add_ema(named("ema"), *optimizer.ema());
  }
  const auto average = [&optimizer] { optimizer.average(); };
  if (auto* local = optimizer.local_sgd()) {
    state.add_local_sgd(named("local_sgd"), *local, average);
  } else if (auto* adaptive = optimizer.adaptive_local_sgd()) {
    state.add_local_sgd(named("local_sgd"), *adaptive, average);
  }
  state.note(
      named("strategy"), nlohmann::json::parse(optimizer.strategy().to_json()));
}

void add_to(
    checkpoint::State& state, const std::string& name, PipelineModel& model) {
  state.add_model(
      name.empty() ? "model" : name, model.module(), model.pipeline().core());
}

} // namespace argosy::fleet
