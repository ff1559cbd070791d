#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/launch/cpu_binding.h"
#include "argosy/launch/logs.h"
#include "argosy/launch/node_assignment.h"
#include "argosy/launch/options.h"
#include "argosy/launch/worker_env.h"

namespace argosy::launch {

// One process to start.
struct WorkerSpec {
  WorkerIdentity identity;
  std::vector<std::string> argv{};
  Variables variables{};   // added to the inherited environment
  std::vector<int> cpus{}; // empty: not bound
  StreamPlan out{};
  StreamPlan err{};
  std::string prefix{}; // of its lines on the console if they are teed
  std::string error_file{};
  bool reads_stdin = false; // else it reads /dev/null
  // Its standard input is a pipe into which we write `stdin_text` and then
  // nothing. Closing it, when we end or stop the worker, tells the worker to
  // end.
  bool ends_with_stdin = false;
  std::string stdin_text{}; // secret: printed nowhere

  bool operator==(const WorkerSpec&) const = default;
};

// What one attempt starts on this node.
struct JobPlan {
  NodeAssignment assignment;
  std::vector<WorkerSpec> workers; // in start order
  // Where workers write flight records; empty: the plan is of other processes.
  std::string flight_dir{};

  bool operator==(const JobPlan&) const = default;
};

// Prints what --dry-run shows.
std::ostream& operator<<(std::ostream& out, const JobPlan& plan);

// Plans one attempt; a pure function. `argv` comes from program_argv();
// `inherited` is the environment that workers inherit.
JobPlan plan_job(
    const RunOptions& options,
    const NodeAssignment& assignment,
    const std::vector<std::string>& argv,
    const Topology& topology,
    const Environment& inherited,
    const std::string& run_dir);

} // namespace argosy::launch
