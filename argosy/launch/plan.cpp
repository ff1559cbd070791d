#include "argosy/launch/plan.h"

#include <ostream>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/launch/ranks_store.h"
#include "argosy/launch/roles.h"
#include "argosy/launch/shell.h"

namespace argosy::launch {

namespace {

StreamPlan plan_stream(
    bool redirect, bool tee, bool shown, const std::string& file) {
  return {
      .console = shown && (tee || !redirect),
      .file = redirect || tee ? file : ""};
}

// The one file of a worker under the names of other launchers. Attempts append
// to it, as they would there.
std::string other_log_file(
    const RunOptions& options, const WorkerIdentity& who) {
  const bool is_paddle = options.log_names == LogNames::Paddle;
  const char* kind = who.server ? "server" : "worker";
  return str(
      options.log_dir,
      "/",
      is_paddle ? str(kind, "log.", who.local_rank)
                : str(kind, "_", who.rank, ".log"));
}

void plan_output(
    const RunOptions& options, const std::string& dir, WorkerSpec& worker) {
  const int local_rank = worker.identity.local_rank;
  const auto& shown_ranks = options.shown_local_ranks;
  const bool shown = shown_ranks.empty() || shown_ranks.count(local_rank) > 0;
  worker.out = plan_stream(
      options.redirects.out(local_rank),
      options.tee.out(local_rank),
      shown,
      dir + "/stdout.log");
  worker.err = plan_stream(
      options.redirects.err(local_rank),
      options.tee.err(local_rank),
      shown,
      dir + "/stderr.log");
  if (options.log_names != LogNames::Torchrun) {
    const std::string file = other_log_file(options, worker.identity);
    for (StreamPlan* stream : {&worker.out, &worker.err}) {
      stream->file = stream->file.empty() ? "" : file;
      stream->appends = true;
    }
  }
  worker.error_file = dir + "/error.json";
}

Variables plan_variables(
    const RunOptions& options,
    const NodeAssignment& assignment,
    const WorkerSpec& worker,
    const Environment& inherited,
    const std::string& run_dir) {
  const WorkerIdentity& identity = worker.identity;
  Variables variables = torch_variables(
      identity, assignment, options.max_restarts, worker.error_file, inherited);
  if (assignment.num_servers() == 0) {
    variables.merge(paddle_variables(identity, assignment, run_dir));
  } else {
    variables.merge(paddle_ps_variables(identity, assignment));
  }
  if (identity.server) {
    // Only trainers form a collective world.
    variables.erase("RANK");
    variables.erase("WORLD_SIZE");
  }
  if (!inherited.has("ARGOSY_FLIGHT_DIR")) {
    variables["ARGOSY_FLIGHT_DIR"] = attempt_dir(run_dir, assignment.attempt);
  }
  variables["ARGOSY_HANG_REPORT"] = "launcher";
  if (options.restart_policy == RestartPolicy::Worker) {
    variables["ARGOSY_WORKER_RESTARTS"] = "0"; // see replacement_of()
  }
  if (launcher_serves_ranks(options, inherited)) {
    variables["ARGOSY_STORE"] = ranks_store_url(assignment);
  }
  // Last, so that --env of the user overrides what the launcher sets.
  for (const auto& [name, value] : options.env) {
    variables[name] = value;
  }
  return variables;
}

std::string dir_name(const WorkerIdentity& identity, bool has_servers) {
  return has_servers ? str(identity.role, "_", identity.local_rank)
                     : str(identity.local_rank);
}

} // namespace

JobPlan plan_job(
    const RunOptions& options,
    const NodeAssignment& assignment,
    const std::vector<std::string>& argv,
    const Topology& topology,
    const Environment& inherited,
    const std::string& run_dir) {
  JobPlan plan{
      .assignment = assignment,
      .workers = {},
      .flight_dir = inherited.get(
          "ARGOSY_FLIGHT_DIR", attempt_dir(run_dir, assignment.attempt))};
  const auto identities = local_workers(assignment, options.role);
  const auto cpus = bind_ranks(
      topology, options.bind_to, static_cast<int>(identities.size()));
  const bool has_servers = assignment.num_servers() > 0;
  const std::string form =
      inherited.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "");
  for (std::size_t i = 0; i < identities.size(); ++i) {
    const WorkerIdentity& identity = identities[i];
    WorkerSpec worker{.identity = identity, .argv = argv, .cpus = cpus[i]};
    const std::string dir = worker_log_dir(
        run_dir, assignment.attempt, dir_name(identity, has_servers));
    plan_output(options, dir, worker);
    worker.prefix =
        line_prefix(form, identity.role, identity.local_rank, identity.rank);
    // Several readers would each get random parts of stdin.
    worker.reads_stdin = identity.local_rank == 0 && !identity.server &&
        !options.exit_with_stdin;
    worker.variables =
        plan_variables(options, assignment, worker, inherited, run_dir);
    plan.workers.push_back(std::move(worker));
  }
  return plan;
}

std::ostream& operator<<(std::ostream& out, const JobPlan& plan) {
  out << plan.assignment << "\n";
  for (const WorkerSpec& worker : plan.workers) {
    const WorkerIdentity& who = worker.identity;
    out << "\n"
        << who.role << " " << who.rank << "/" << who.size << ", local "
        << who.local_rank << "/" << who.local_size
        << "\n  run: " << shell_join(worker.argv) << "\n";
    if (!worker.cpus.empty()) {
      out << "  cpus: " << ranges_text(worker.cpus) << "\n";
    }
    out << "  stdout: " << worker.out << "\n  stderr: " << worker.err << "\n";
    for (const auto& [name, value] : worker.variables) {
      out << "  " << name << "=" << value << "\n";
    }
  }
  return out;
}

} // namespace argosy::launch
