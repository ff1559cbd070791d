#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/common/net.h"
#include "argosy/launch/flags.h"
#include "argosy/launch/options.h"
#include "argosy/launch/signals.h"

namespace argosy::launch {

struct HostSlots {
  std::string host;
  int slots = 0; // processes to start there; 0: not said

  bool operator==(const HostSlots&) const = default;
};

// Lines `host`, `host slots=N` or `host:N`; `#` starts a comment. Further
// key=value words are passed over. Throws InvalidArgument that names `path` and
// the line.
std::vector<HostSlots> parse_hostfile(
    std::string_view text, std::string_view path);

// What a host needs to know to take part.
struct RemoteNode {
  HostSlots host;
  int node_rank = 0;
  int num_nodes = 1;
  std::string endpoint; // of the store, as that host reaches it
  std::string run_id;
  std::string command; // path of argosy
  std::string folder;  // to run in
};

// The shell command that starts `node` there: the same flags, but for those
// that say where it is; and the variables that concern training.
std::string remote_command(
    const CommandLine& line,
    const RemoteNode& node,
    const Environment& environment);

// Starts the job on the hosts of --hostfile, through ssh, and serves the store
// where they meet. Returns the exit code.
int run_on_hosts(
    const CommandLine& line,
    const RunOptions& options,
    const Environment& environment,
    SignalSource& signals,
    int alive_fd);

} // namespace argosy::launch
