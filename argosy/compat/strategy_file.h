#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "argosy/compat/parallel_layout.h"

// MindSpore's strategy files, which say how each parameter of a job is sliced:
// its checkpoints do not. No torch headers.
namespace argosy {

// The contents of a strategy file, of one pipeline stage or of all.
struct ParallelStrategy {
  int current_stage = 0;
  // By name of the parameter. In files of all stages names are
  // "<stage>-<name>".
  std::map<std::string, ParallelLayout> layouts;
  // `parallel_strategy_item`, a JSON object: node name -> {stage,
  // parallel_strategy}; kept as it is.
  std::string nodes = "{}";

  bool operator==(const ParallelStrategy&) const = default;
};

// Reads a strategy file in JSON. Throws CheckpointError, naming the file, when
// it is missing, empty or not JSON (the protobuf form is not read: have
// MindSpore write a file that ends in .json), and InvalidArgument for layouts
// that contradict themselves.
ParallelStrategy build_searched_strategy(const std::filesystem::path& file);

// Writes a file that MindSpore reads too, unless a layout has dims that two
// axes slice, or a list of ranks.
void save_strategy(
    const std::filesystem::path& file, const ParallelStrategy& strategy);

// The strategy of a job from where its tensors are: with names
// "<stage>-<name>" when the meshes are those of several stages.
struct PlacedTensor {
  std::string name;
  dtensor::Shape shape;
  DistAttr attr;
};
ParallelStrategy strategy_of(const std::vector<PlacedTensor>& tensors);

// Writes one file of the files *.json of all stages in a folder. Of several
// files of one stage the first by name counts. Throws CheckpointError when
// stages are missing, and names them.
void merge_pipeline_strategies(
    const std::filesystem::path& src_dir,
    const std::filesystem::path& dst_file);

namespace compat {

// The stage of a file of one stage: that of its first node, or current_stage.
int stage_of(const ParallelStrategy& strategy);

// Whether all names are "<stage>-<name>".
bool has_all_stages(const ParallelStrategy& strategy);

// "3-fc.weight" -> {3, "fc.weight"}; {-1, name} if it has no stage.
std::pair<int, std::string> split_stage(const std::string& name);

std::string to_json(const ParallelStrategy& strategy);
ParallelStrategy parse_strategy(
    std::string_view text, const std::string& where);
ParallelStrategy merge_stages(
    const std::vector<std::pair<std::string, ParallelStrategy>>& files);

} // namespace compat
} // namespace argosy
