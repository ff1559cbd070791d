#include "argosy/compat/group_sharded_model.h"

#include <torch/nn/module.h>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/model_file.h"

namespace argosy::sharding {

namespace {

// Without random numbers and strategies: the functions' names promise the model
// and the optimizer.
checkpoint::State state_of_group(
    const std::shared_ptr<ShardedCore>& core, ShardedOptimizer* optimizer) {
  checkpoint::State state;
  state.without_random();
  state.add_model("model", core->module(), core);
  if (optimizer != nullptr) {
    state.add(*optimizer);
  }
  return state;
}

} // namespace

void save_group_sharded_model(
    const std::shared_ptr<ShardedCore>& core,
    const std::string& output,
    ShardedOptimizer* optimizer) {
  checkpoint::State state = state_of_group(core, optimizer);
  checkpoint::replace(output, state);
}

void load_group_sharded_model(
    const std::shared_ptr<ShardedCore>& core,
    const std::string& input,
    ShardedOptimizer* optimizer) {
  checkpoint::State state = state_of_group(core, optimizer);
  if (optimizer == nullptr) {
    checkpoint::load_models(input, state);
  } else {
    checkpoint::load(input, state);
  }
}

} // namespace argosy::sharding
