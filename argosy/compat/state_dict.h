#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/ops.h"

namespace at {
class Tensor;
}

// Paddle's distributed checkpoints of tensors by name, over argosy/checkpoint,
// which saves whole runs.
namespace argosy {

using StateDict = std::map<std::string, at::Tensor>;

struct StateDictOptions {
  // The ranks that save or load together. Null: all.
  GroupPtr process_group;
  // The number of the checkpoint in the folder. None: of a save, one more than
  // the newest; of a load, the newest.
  std::optional<std::int64_t> unique_id;
};

// Saves tensors, each element once, whoever has it: DTensors, parameters of
// parallel layers, and tensors that all ranks have alike. All ranks call it
// with the same names; blocks. The checkpoint exists completely or not at all.
// Returns its number. Throws CheckpointError on all ranks if one of them fails.
std::int64_t save_state_dict(
    const StateDict& state_dict,
    const std::string& path,
    const StateDictOptions& options = {});

// Fills tensors in place, from a checkpoint of any mesh and number of ranks.
// All ranks call it with the same names; blocks. Returns the names that the
// checkpoint does not have, which are logged, and whose tensors stay as they
// are. Throws CheckpointError, before anything is changed, for tensors of
// another shape or type and for damaged files.
std::vector<std::string> load_state_dict(
    StateDict& state_dict,
    const std::string& path,
    const StateDictOptions& options = {});

} // namespace argosy
