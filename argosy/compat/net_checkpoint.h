#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "argosy/compat/match_parameters.h"
#include "argosy/compat/transform_checkpoints.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

// MindSpore's functions that save and load the parameters and buffers of a
// module, whole or in slices. argosy/checkpoint saves all of a run, atomically
// and beside training: prefer it where no tool needs a file for each rank.
namespace argosy {

struct SaveCheckpointOptions {
  // Every rank writes all tensors whole; the ranks of their meshes gather them,
  // so all call it. If false, a rank writes its slices, and a strategy file
  // (strategy_of) is needed to read them in another layout.
  bool integrated_save = true;
  // Of slices that several ranks have, `keep_redundancy` ranks write each.
  bool remove_redundancy = false;
  int keep_redundancy = 1;
};

// Writes a safetensors file of this rank; the folder is made. Throws
// CheckpointError when it cannot be written, and InvalidArgument for slices
// that are not blocks.
void save_checkpoint(
    const torch::nn::Module& net,
    const std::filesystem::path& file,
    const SaveCheckpointOptions& options = {});

// Where the parameters and buffers of a module are. Those that are no DTensors
// are whole on all ranks of this rank's stage.
ParallelStrategy strategy_of(const torch::nn::Module& net);

// Copies values into a module; each must have the shape of the whole tensor or
// of this rank's slice. Unless `strict_load`, names match by their ends, and
// types are converted. Throws InvalidArgument, naming the parameter, before
// anything is changed. Sends nothing.
NotLoaded load_param_into_net(
    torch::nn::Module& net,
    const ParameterDict& parameters,
    bool strict_load = false);

// Fills a module, whatever its layout, from the files of all training ranks.
// Files are those of `train_strategy`, in rank order; without a strategy, one
// whole file.
NotLoaded load_distributed_checkpoint(
    torch::nn::Module& net,
    const std::vector<std::filesystem::path>& checkpoint_filenames,
    const StrategyArgument& train_strategy,
    bool strict_load = false);

// The whole of a parameter from tensors.
at::Tensor merge_sliced_parameter(
    const std::string& name,
    const std::vector<at::Tensor>& sliced_parameters,
    const StrategyArgument& strategy = {});

} // namespace argosy
