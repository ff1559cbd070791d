#pragma once

#include <filesystem>
#include <iosfwd>
#include <set>
#include <string>
#include <vector>

namespace argosy::comm::flight {

// Ranks of this host that write flight records to one folder.
struct LiveJob {
  std::filesystem::path folder;
  std::string program; // the command line of its lowest rank
  std::set<int> ranks; // on this host
  int world_size = 1;

  bool operator==(const LiveJob&) const = default;
};

// Finds the processes of ranks by their environment, in the order of their
// folders. Sees those of other users only with the right to. `processes` is the
// system's folder of processes.
std::vector<LiveJob> live_jobs(
    const std::filesystem::path& processes = "/proc");

// Each job with the command that says what hangs in it.
std::ostream& operator<<(std::ostream& out, const std::vector<LiveJob>& jobs);

} // namespace argosy::comm::flight
