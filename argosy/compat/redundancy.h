#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "argosy/compat/transform_checkpoints.h"

// Slices that several ranks hold: which ranks can stand in for which, and how
// to save each slice once. No torch headers.
namespace argosy {

// The ranks whose sliced checkpoints have the same contents as that of `rank`,
// which is one of them; ascending. If they are lost, its file can be copied to
// them. Just {rank} if some parameter has no second copy.
std::vector<int> restore_rank_list(const StrategyArgument& strategy, int rank);

// What a rank knows about its groups, as JSON.
struct GroupInfo {
  std::map<std::string, std::vector<int>> groups; // by name
  std::vector<int> ckpt_restore_rank_list;

  bool operator==(const GroupInfo&) const = default;
};
void save_group_info(const std::filesystem::path& file, const GroupInfo& info);

// The restore list of such a file. Throws CheckpointError when it is missing,
// damaged or has none.
std::vector<int> restore_group_info_list(const std::filesystem::path& file);

// The parameters that each rank saves so that each slice is stored `keep`
// times: those of a group of ranks that hold the same slices are dealt to them
// in turn, by name. Throws InvalidArgument unless `keep` is 1 or more.
std::map<int, std::set<std::string>> parameters_to_save(
    const StrategyArgument& strategy, int keep = 1);

// What `rank` holds, from the folders rank_N of all ranks: of its own file, and
// of those of other ranks where that lacks something. Throws CheckpointError,
// with names of parameters and files, for what no file has.
ParameterDict load_without_redundancy(
    const std::filesystem::path& src_dir,
    const StrategyArgument& strategy,
    int rank);

namespace compat {

// Who saves which of `names`: the i-th goes to member i modulo the number of
// members, and to the keep - 1 members that follow it.
std::map<int, std::vector<std::string>> deal(
    const std::vector<std::string>& names,
    const std::vector<int>& members,
    int keep = 1);

} // namespace compat
} // namespace argosy
