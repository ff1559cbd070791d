#pragma once

#include <string>

#include "argosy/sharding/group_sharded.h"

// Paddle's functions that save and load what group_sharded_parallel() returns.
// They are argosy/checkpoint with a folder for one checkpoint;
// checkpoint::State also takes loaders, schedulers and values.
namespace argosy::sharding {

// Saves the model and, if given, the optimizer to the folder or URL `output`,
// in place of what was saved there before; until that is done, the old one
// stays. All ranks call it alike, which blocks. Throws CheckpointError on all
// ranks if it cannot be written.
void save_group_sharded_model(
    const std::shared_ptr<ShardedCore>& core,
    const std::string& output,
    ShardedOptimizer* optimizer = nullptr);

template <typename Module>
void save_group_sharded_model(
    ShardedModel<Module>& model,
    const std::string& output,
    ShardedOptimizer* optimizer = nullptr) {
  save_group_sharded_model(model.core(), output, optimizer);
}

// Reads what save_group_sharded_model() has written, with any number of ranks
// and at any level; without an optimizer, also files of other formats (see
// argosy/checkpoint/model_file.h). All ranks call it alike, which blocks.
// Throws CheckpointError on all ranks; model and optimizer are then as before.
void load_group_sharded_model(
    const std::shared_ptr<ShardedCore>& core,
    const std::string& input,
    ShardedOptimizer* optimizer = nullptr);

template <typename Module>
void load_group_sharded_model(
    ShardedModel<Module>& model,
    const std::string& input,
    ShardedOptimizer* optimizer = nullptr) {
  load_group_sharded_model(model.core(), input, optimizer);
}

} // namespace argosy::sharding
