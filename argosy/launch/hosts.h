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

class Consoles;

struct HostSlots {
  std::string host;
  int slots = 0; // processes to start there; 0: unspecified

  bool operator==(const HostSlots&) const = default;
};

// Parses lines `host`, `host slots=N` or `host:N`; `#` starts a comment.
// Ignores other key=value words. Throws InvalidArgument, naming `path` and the
// line.
std::vector<HostSlots> parse_hostfile(
    std::string_view text, std::string_view path);

// What a host needs to know to join.
struct RemoteNode {
  HostSlots host;
  int node_rank = 0;
  int num_nodes = 1;
  std::string endpoint; // of the store, as that host reaches it
  std::string run_id;
  std::string command; // path of the argosy command
  std::string folder;  // working directory
};

// Returns the shell command that starts `node` on its host: the flags of this
// command line, except those about its position, and the variables that affect
// training.
std::string remote_command(
    const CommandLine& line,
    const RemoteNode& node,
    const Environment& environment);

// Starts the job on the hosts of --hostfile through ssh, and serves their
// rendezvous store. They get the job's secret through ssh's standard input; if
// `credentials` has none, a new one. Blocks; returns the exit code.
int run_on_hosts(
    const CommandLine& line,
    const RunOptions& options,
    const Environment& environment,
    const store::Credentials& credentials,
    SignalSource& signals,
    int alive_fd,
    Consoles& consoles);

} // namespace argosy::launch
