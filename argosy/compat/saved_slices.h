#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "argosy/compat/rank_file.h"
#include "argosy/compat/transform_plan.h"

// Carries out plans of transformation on what ranks saved.
namespace argosy::compat {

// The slices that ranks have, in files or in memory.
class SavedSlices {
 public:
  using Entry = RankFile::Entry;

  // Maps a file of each rank. `missing` names the file of a rank that has none,
  // for errors.
  SavedSlices(
      const std::map<int, std::filesystem::path>& files,
      std::function<std::string(int rank)> missing);
  // One tensor of each rank, in rank order; all of the same name. They must
  // live as long.
  explicit SavedSlices(const std::vector<Entry>& of_one_tensor);

  // Null if the rank has no such tensor.
  const Entry* find(int rank, const std::string& name) const;
  std::set<std::string> names() const;
  std::string file_of(int rank) const;

  // A planner that knows what is there. Parameters that no file has are left
  // out if the source is one unsharded file (`may_lack`). The report has what
  // the files have and the strategy does not, too.
  TransformPlanner planner(JobLayout from, JobLayout to, bool may_lack) const;

  // The type and shape of what a rank gets.
  checkpoint::TensorInfo info_of(const ParameterPlan& plan) const;
  // Copies the parts of a plan to where the target has them, row-major. Throws
  // CheckpointError, naming file, tensor and shapes, if a slice is not what the
  // strategy says.
  void fill(const ParameterPlan& plan, std::span<std::byte> target) const;

 private:
  TransformPlanner::Shapes shapes_of(const JobLayout& from) const;
  const Entry& slice_of(
      const ParameterPlan& plan, const SourcePart& part) const;

  std::vector<RankFile> files_;
  std::map<int, std::map<std::string, Entry>> tensors_; // by rank
  std::map<int, std::string> paths_;
  std::function<std::string(int)> missing_;
};

// What write_rank_file() takes, for all parameters of a rank. Refers to both.
std::vector<TensorSource> sources_of(
    const SavedSlices& slices, const RankPlan& plan);

} // namespace argosy::compat
