#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"
#include "argosy/compat/strategy_file.h"
#include "argosy/compat/transform_report.h"

// MindSpore's way with sliced checkpoints: each rank saves its slices, strategy
// files say what they are, and these functions make them into the slices of
// another strategy, on any number of devices. No torch headers, no ranks: one
// process does it. Files are safetensors; sources may be MindSpore's .ckpt.
//
// All throw CheckpointError, naming file and parameter, for files that are
// missing, damaged or not what the strategy says.
namespace argosy {

// A strategy as a file, as a value, or none: unsharded, in a single file.
class StrategyArgument {
 public:
  StrategyArgument() = default;
  StrategyArgument(std::nullopt_t) {}                 // NOLINT
  StrategyArgument(const std::filesystem::path& file) // NOLINT
      : value_(build_searched_strategy(file)) {}
  StrategyArgument(const std::string& file) // NOLINT
      : value_(build_searched_strategy(file)) {}
  StrategyArgument(const char* file) // NOLINT
      : value_(build_searched_strategy(file)) {}
  StrategyArgument(ParallelStrategy value) // NOLINT
      : value_(std::move(value)) {}

  explicit operator bool() const { return value_.has_value(); }
  const ParallelStrategy& operator*() const { return *value_; }

 private:
  std::optional<ParallelStrategy> value_;
};

// A tensor in memory, row-major.
struct CheckpointTensor {
  checkpoint::TensorInfo info;
  std::vector<std::byte> bytes;

  bool operator==(const CheckpointTensor&) const = default;
};
using ParameterDict = std::map<std::string, CheckpointTensor>;

// The source ranks whose files a target rank needs: as few as possible, in
// descending order. Without a source strategy: {0}.
std::vector<int> rank_list_for_transform(
    int rank,
    const StrategyArgument& src_strategy = {},
    const StrategyArgument& dst_strategy = {});

// Writes the file of one target rank. Ranks that the target does not need may
// be missing from `checkpoint_files`. Holds one tensor of the result in memory
// at a time.
TransformReport transform_checkpoint_by_rank(
    int rank,
    const std::map<int, std::filesystem::path>& checkpoint_files,
    const std::filesystem::path& save_file,
    const StrategyArgument& src_strategy = {},
    const StrategyArgument& dst_strategy = {});

// Makes src_dir/rank_N/*.safetensors into dst_dir/rank_M/<prefix>M.safetensors.
// Of several files in a folder the last counts, by name, with numbers as
// numbers. The file of a rank may be missing if others hold the same.
//
// A source strategy of a single pipeline stage transforms that stage alone, to
// <prefix>M_part<stage>.safetensors; load_segmented_checkpoints() reads the
// files of all stages. It needs a target without stages.
//
// Parameters that only one side has are left out, logged and returned.
TransformReport transform_checkpoints(
    const std::filesystem::path& src_dir,
    const std::filesystem::path& dst_dir,
    const std::string& ckpt_prefix,
    const StrategyArgument& src_strategy = {},
    const StrategyArgument& dst_strategy = {});

// Reads all tensors of a file.
ParameterDict load_checkpoint(const std::filesystem::path& file);

// Reads the files *_part<stage> of a folder together. Throws CheckpointError
// when two of them have different values for one name.
ParameterDict load_segmented_checkpoints(const std::filesystem::path& dir);

// What `rank` of the predict strategy needs, of the files of all training
// ranks, in rank order. Without a predict strategy: everything, merged.
ParameterDict load_distributed_checkpoint(
    const std::vector<std::filesystem::path>& checkpoint_filenames,
    const StrategyArgument& predict_strategy,
    const StrategyArgument& train_strategy,
    int rank = 0);
// The same, one tensor at a time. Bytes live until `take` returns.
using TakeTensor = std::function<void(
    const checkpoint::TensorInfo& info, std::span<const std::byte> bytes)>;
TransformReport load_distributed_checkpoint(
    const std::vector<std::filesystem::path>& checkpoint_filenames,
    const StrategyArgument& predict_strategy,
    const StrategyArgument& train_strategy,
    int rank,
    const TakeTensor& take);

// The whole of one parameter from the slices of all ranks, in rank order;
// without a strategy they follow one another along dim 0. Throws
// InvalidArgument unless the strategy has the parameter and as many devices.
CheckpointTensor merge_sliced_parameter(
    const std::vector<CheckpointTensor>& sliced_parameters,
    const StrategyArgument& strategy = {});

} // namespace argosy
