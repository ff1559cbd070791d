#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/launch/binding.h"
#include "argosy/launch/logs.h"
#include "argosy/launch/node_assignment.h"
#include "argosy/launch/options.h"
#include "argosy/launch/worker_env.h"

namespace argosy::launch {

// One process to start.
struct WorkerSpec {
  WorkerIdentity identity;
  std::vector<std::string> argv{};
  Variables variables{};   // on top of the inherited environment
  std::vector<int> cpus{}; // empty: not bound
  StreamPlan out{};
  StreamPlan err{};
  std::string prefix{}; // before its lines on the console, when they are teed
  std::string error_file{};
  bool reads_stdin = false; // else /dev/null
  // Its standard input is a pipe from us that says nothing; its end, ours or
  // when we tell the worker to end, tells it to.
  bool ends_with_stdin = false;

  bool operator==(const WorkerSpec&) const = default;
};

// What one attempt starts on this node.
struct JobPlan {
  NodeAssignment assignment;
  std::vector<WorkerSpec> workers; // in the order in which they start

  bool operator==(const JobPlan&) const = default;
};

// What --dry-run prints.
std::ostream& operator<<(std::ostream& out, const JobPlan& plan);

// Plans one attempt. `argv` comes from program_argv(); `inherited` is the
// environment that workers inherit. Touches nothing.
JobPlan plan_job(
    const RunOptions& options,
    const NodeAssignment& assignment,
    const std::vector<std::string>& argv,
    const Topology& topology,
    const Environment& inherited,
    const std::string& run_dir);

} // namespace argosy::launch
