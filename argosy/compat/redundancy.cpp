#include "argosy/compat/redundancy.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/json.h"
#include "argosy/compat/saved_slices.h"

namespace argosy {

using compat::JobLayout;
using nlohmann::json;

namespace {

JobLayout job_of(const StrategyArgument& strategy, const char* op) {
  ARGOSY_CHECK(static_cast<bool>(strategy), "[{}] no strategy", op);
  return compat::job_layout(*strategy);
}

// The ranks that hold what `device` of a stage holds.
std::vector<int> same_ranks(
    const JobLayout& job, const JobLayout::StageLayout& parameter, int device) {
  std::vector<int> ranks =
      compat::optimizer_groups(parameter.layout, device).mirror;
  for (int& rank : ranks) {
    rank += parameter.stage * job.devices;
  }
  return ranks;
}

} // namespace

std::vector<int> restore_rank_list(const StrategyArgument& strategy, int rank) {
  const JobLayout job = job_of(strategy, "restore_rank_list");
  ARGOSY_CHECK(
      rank >= 0 && rank < job.num_ranks(),
      "[restore_rank_list] rank {}, expected 0 to {}",
      rank,
      job.num_ranks() - 1);
  std::vector<int> common;
  const int first = rank - rank % job.devices;
  for (int i = 0; i < job.devices; ++i) {
    common.push_back(first + i);
  }
  for (const auto& [name, layouts] : job.parameters) {
    for (const auto& layout : layouts) {
      if (layout.stage == rank / job.devices) {
        const auto same = same_ranks(job, layout, rank % job.devices);
        std::erase_if(common, [&](int other) {
          return !std::ranges::binary_search(same, other);
        });
      }
    }
  }
  return common;
}

void save_group_info(const std::filesystem::path& file, const GroupInfo& info) {
  const json document{
      {"groups", info.groups},
      {"ckpt_restore_rank_list", info.ckpt_restore_rank_list}};
  write_file(file, document.dump(2) + "\n");
}

std::vector<int> restore_group_info_list(const std::filesystem::path& file) {
  const std::string where = "[restore_group_info_list] " + file.string();
  const auto text = read_file(file);
  if (!text) {
    throw CheckpointError(where + ": no such file");
  }
  std::vector<int> ranks;
  try {
    ranks = parse_json(*text, where)
                .at("ckpt_restore_rank_list")
                .get<std::vector<int>>();
  } catch (const InvalidArgument& error) {
    throw CheckpointError(error.what());
  } catch (const json::exception&) {
    ranks.clear();
  }
  if (ranks.empty()) {
    throw CheckpointError(where + ": no list of ranks, expected group info");
  }
  return ranks;
}

std::map<int, std::set<std::string>> parameters_to_save(
    const StrategyArgument& strategy, int keep) {
  const JobLayout job = job_of(strategy, "parameters_to_save");
  std::map<std::vector<int>, std::vector<std::string>> groups;
  for (const auto& [name, layouts] : job.parameters) {
    for (const auto& layout : layouts) {
      for (int device = 0; device < job.devices; ++device) {
        const auto members = same_ranks(job, layout, device);
        if (members.front() == layout.stage * job.devices + device) {
          groups[members].push_back(name);
        }
      }
    }
  }
  std::map<int, std::set<std::string>> result;
  for (int rank = 0; rank < job.num_ranks(); ++rank) {
    result[rank]; // ranks that save nothing are there, too
  }
  for (const auto& [members, names] : groups) {
    for (const auto& [rank, dealt] : compat::deal(names, members, keep)) {
      result[rank].insert(dealt.begin(), dealt.end());
    }
  }
  return result;
}

ParameterDict load_without_redundancy(
    const std::filesystem::path& src_dir,
    const StrategyArgument& strategy,
    int rank) {
  const JobLayout job = job_of(strategy, "load_without_redundancy");
  std::map<int, std::filesystem::path> files;
  for (int other = 0; other < job.num_ranks(); ++other) {
    if (const auto file = compat::last_file_of(src_dir / str("rank_", other))) {
      files[other] = *file;
    }
  }
  const compat::SavedSlices slices(files, [&](int missing) {
    return (src_dir / str("rank_", missing) / "*.safetensors").string();
  });
  const compat::RankPlan plan = slices.planner(job, job, false).plan(rank);
  ParameterDict dict;
  for (const auto& source : compat::sources_of(slices, plan)) {
    CheckpointTensor& tensor = dict[source.info.name];
    tensor.info = source.info;
    tensor.bytes.resize(compat::bytes_of(source.info));
    source.fill(tensor.bytes);
  }
  return dict;
}

namespace compat {

std::map<int, std::vector<std::string>> deal(
    const std::vector<std::string>& names,
    const std::vector<int>& members,
    int keep) {
  ARGOSY_CHECK(
      keep >= 1, "[remove_redundancy] {} copies, expected 1 or more", keep);
  std::map<int, std::vector<std::string>> dealt;
  const std::size_t copies =
      std::min(static_cast<std::size_t>(keep), members.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t copy = 0; copy < copies; ++copy) {
      dealt[members[(i + copy) % members.size()]].push_back(names[i]);
    }
  }
  return dealt;
}

} // namespace compat
} // namespace argosy
