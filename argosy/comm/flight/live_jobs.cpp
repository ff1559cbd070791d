#include "argosy/comm/flight/live_jobs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <tuple>

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/launch/shell.h"
#include "argosy/world/adopt.h"

namespace argosy::comm::flight {

namespace fs = std::filesystem;

namespace {

// A process that is a rank.
struct LiveRank {
  fs::path folder; // for flight records
  int rank = 0;
  int world_size = 1;
  long long pid = 0;
  std::string program;
};

// The strings of a file, each of which ends with a zero byte; none if the file
// cannot be read.
std::vector<std::string> strings_of(const fs::path& path) {
  try {
    std::vector<std::string> strings = split(read_file(path).value_or(""), 0);
    if (!strings.empty() && strings.back().empty()) {
      strings.pop_back();
    }
    return strings;
  } catch (const SystemError&) {
    return {};
  }
}

Environment environment_of(const fs::path& process) {
  Environment environment;
  for (const std::string& entry : strings_of(process / "environ")) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) {
      environment.set(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return environment;
}

// A launcher may have the folder in its environment too, but no rank.
std::optional<LaunchInfo> rank_of(const Environment& environment) {
  try {
    const Adoption adoption = examine(environment);
    const LaunchInfo& info = adoption.info;
    const bool is_rank = adoption.error.empty() && info.source != "single" &&
        info.role == Role::Worker;
    return is_rank ? std::optional(info) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<LiveRank> live_rank(const fs::path& process) {
  const auto pid = parse_int(process.filename().string());
  const Environment environment = pid ? environment_of(process) : Environment();
  const auto folder = environment.find("ARGOSY_FLIGHT_DIR");
  const auto info = folder ? rank_of(environment) : std::nullopt;
  if (!info) {
    return std::nullopt;
  }
  std::error_code ignored; // then a relative folder stays as it is
  const fs::path at = fs::read_symlink(process / "cwd", ignored);
  return LiveRank{
      .folder = at / *folder,
      .rank = info->rank,
      .world_size = info->size,
      .pid = *pid,
      .program = launch::shell_join(strings_of(process / "cmdline"))};
}

} // namespace

std::vector<LiveJob> live_jobs(const fs::path& processes) {
  std::vector<LiveRank> ranks;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(processes, ignored)) {
    if (auto rank = live_rank(entry.path())) {
      ranks.push_back(std::move(*rank));
    }
  }
  // What a rank started has its environment too: the oldest is the rank.
  std::ranges::sort(ranks, [](const LiveRank& a, const LiveRank& b) {
    return std::tie(a.rank, a.pid) < std::tie(b.rank, b.pid);
  });
  std::map<fs::path, LiveJob> jobs;
  for (const LiveRank& rank : ranks) {
    auto& job =
        jobs.try_emplace(rank.folder, LiveJob{rank.folder, rank.program})
            .first->second;
    job.ranks.insert(rank.rank);
    job.world_size = rank.world_size;
  }
  std::vector<LiveJob> found;
  for (auto& [folder, job] : jobs) {
    found.push_back(std::move(job));
  }
  return found;
}

std::ostream& operator<<(std::ostream& out, const std::vector<LiveJob>& jobs) {
  for (const LiveJob& job : jobs) {
    const std::vector<int> ranks(job.ranks.begin(), job.ranks.end());
    out << job.program << ": " << (ranks.size() == 1 ? "rank " : "ranks ")
        << ranges_text(ranks) << " of " << job.world_size
        << "\n  argosy trace hang --fresh "
        << launch::shell_join({job.folder.string()}) << "\n";
  }
  return out;
}

} // namespace argosy::comm::flight
