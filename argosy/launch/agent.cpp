#include "argosy/launch/agent.h"

#include <unistd.h>

#include <csignal>
#include <iostream>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/flight_file.h"
#include "argosy/common/text.h"
#include "argosy/launch/logs.h"
#include "argosy/launch/plan.h"
#include "argosy/launch/ranks_store.h"
#include "argosy/launch/shell.h"
#include "argosy/launch/summary.h"
#include "argosy/launch/supervisor.h"
#include "argosy/launch/worker_restarts.h"
#include "argosy/store/kv_server.h"

namespace argosy::launch {

namespace {

bool writes_logs(const RunOptions& options) {
  return options.redirects.any() || options.tee.any();
}

std::string cause_text(const std::optional<Failure>& cause) {
  if (!cause) {
    return "the job failed";
  }
  return cause->pid == 0 ? cause->message
                         : str_format(
                               "rank {} on {} failed ({})",
                               cause->rank,
                               cause->host,
                               cause->status.text());
}

// Runs attempts until one succeeds or no restart is left. An attempt starts all
// workers of this node once: join the other nodes, plan, supervise, tell the
// others how it ended. The number of the attempt comes from the membership, not
// from a counter here, so that all nodes agree on how many restarts are left.
class Agent {
 public:
  Agent(
      const RunOptions& options,
      const std::vector<std::string>& argv,
      const Environment& inherited,
      Membership& membership,
      SignalSource& signals,
      int alive_fd,
      Consoles& consoles,
      const HangReader& hang_reader)
      : options_(options),
        argv_(argv),
        inherited_(inherited),
        membership_(membership),
        signals_(signals),
        alive_fd_(alive_fd),
        consoles_(consoles),
        hang_reader_(hang_reader),
        topology_(
            options.bind_to == BindTo::None ? Topology{} : read_topology()),
        run_dir_(
            options.log_dir,
            options.rdzv.run_id,
            !options.log_dir.empty() || writes_logs(options)),
        restarts_(options.max_restarts) {}

  int run();

 private:
  struct Attempt {
    JobPlan plan;
    Outcome outcome;
    std::vector<Failure> failures; // of this node, root cause first
  };

  bool restarts_workers() const {
    return options_.restart_policy == RestartPolicy::Worker;
  }
  Attempt run_attempt();
  HangNotice::Setup notice_setup(const JobPlan& plan) const;
  SuperviseOptions supervise_options(HangNotice& notice);
  std::optional<Failure> tell(const Attempt& attempt);
  int exit_code_of_failure(
      const Attempt& attempt, const std::optional<Failure>& cause);
  void say_about_logs() const;
  void say_about_flight_records(const std::string& dir);

  const RunOptions& options_;
  const std::vector<std::string>& argv_;
  const Environment& inherited_;
  Membership& membership_;
  SignalSource& signals_;
  const int alive_fd_;
  Consoles& consoles_;
  const HangReader& hang_reader_;
  const Topology topology_;
  RunDir run_dir_;
  WorkerRestarts restarts_; // if the policy is to restart workers
};

int Agent::run() {
  say_about_logs();
  while (true) {
    const Attempt attempt = run_attempt();
    const Outcome& outcome = attempt.outcome;
    if (outcome.ending == Ending::Completed) {
      return outcome.signal == 0 ? 0 : 128 + outcome.signal;
    }
    if (outcome.ending == Ending::Abandoned) {
      return 128 + SIGKILL;
    }
    const std::optional<Failure> cause = tell(attempt);
    if (outcome.ending == Ending::Signalled) {
      return 128 + outcome.signal;
    }
    const int count = attempt.plan.assignment.attempt;
    // A signal ends the job even if a worker failed at the same time.
    if (outcome.signal != 0 || restarts_workers() ||
        count >= options_.max_restarts) {
      return exit_code_of_failure(attempt, cause);
    }
    std::cerr << "argosy run: " << cause_text(cause) << "; restart "
              << count + 1 << " of " << options_.max_restarts << std::endl;
  }
}

Agent::Attempt Agent::run_attempt() {
  Attempt attempt;
  fault_point("launch.join");
  attempt.plan = plan_job(
      options_,
      membership_.join(),
      argv_,
      topology_,
      inherited_,
      run_dir_.path());
  fault_point("launch.planned");
  const auto server = launcher_serves_ranks(options_, inherited_)
      ? serve_ranks(attempt.plan.assignment, inherited_)
      : nullptr;
  HangNotice notice(notice_setup(attempt.plan));
  attempt.outcome =
      supervise(attempt.plan, inherited_, supervise_options(notice), signals_);
  if (notice.has_printed()) {
    run_dir_.keep(); // the notice names it
  }
  attempt.failures = collect_failures(attempt.plan, attempt.outcome);
  return attempt;
}

HangNotice::Setup Agent::notice_setup(const JobPlan& plan) const {
  return {
      .folder = plan.flight_dir,
      .after = hang_warning_after(inherited_),
      .num_workers = plan.assignment.own().num_workers,
      .num_nodes = plan.assignment.num_nodes(),
      .reader = hang_reader_,
      .share = plan.assignment.num_nodes() == 1 ? nullptr
                                                : membership_.hang_share()};
}

SuperviseOptions Agent::supervise_options(HangNotice& notice) {
  return {
      .consoles = consoles_,
      .grace = options_.grace,
      .ending_signals = options_.ending_signals,
      .alive_fd = alive_fd_,
      .stdin_fd = options_.exit_with_stdin ? STDIN_FILENO : -1,
      .watch = membership_.watch(),
      .watch_interval = options_.monitor_interval,
      .notice = &notice,
      .restarts = restarts_workers() ? &restarts_ : nullptr};
}

// Tells the other nodes why the attempt ended here, and returns the cause that
// the whole job agrees on.
std::optional<Failure> Agent::tell(const Attempt& attempt) {
  fault_point("launch.tell");
  if (!attempt.failures.empty()) {
    membership_.report(attempt.failures.front());
  } else if (attempt.outcome.ending == Ending::Signalled) {
    const NodeAssignment& assignment = attempt.plan.assignment;
    membership_.report(
        {.host = assignment.own().host,
         .role = "launcher",
         .rank = assignment.first_worker(),
         .status = {.signal = attempt.outcome.signal},
         .time = std::chrono::system_clock::now(),
         .message = str_format(
             "argosy run on node {} got {}",
             assignment.node_rank,
             signal_name(attempt.outcome.signal))});
  }
  // Another node may have failed first; then our failure is only its effect.
  if (auto cause = membership_.root_cause()) {
    return cause;
  }
  return attempt.failures.empty()
      ? std::nullopt
      : std::optional<Failure>(attempt.failures.front());
}

// A worker that had reported its error when the launcher stopped it was about
// to exit with 1.
int code_of(const Failure& failure) {
  const bool was_stopped =
      failure.status.signal == SIGTERM || failure.status.signal == SIGKILL;
  return was_stopped && !failure.error_file.empty()
      ? 1
      : failure.status.shell_code();
}

int Agent::exit_code_of_failure(
    const Attempt& attempt, const std::optional<Failure>& cause) {
  std::vector<Failure> failures = attempt.failures;
  for (const Failure& failure : failures) {
    if (!failure.error_file.empty()) {
      run_dir_.keep(); // the summary names it
    }
  }
  if (cause && (failures.empty() || !(failures.front() == *cause))) {
    failures.insert(failures.begin(), *cause);
  }
  std::cerr << summary_text(options_.program[0], failures) << std::flush;
  if (restarts_.total() > 0) {
    std::cerr << "argosy run: started again " << restarts_.total()
              << " times, of " << restarts_.most() << " allowed, after "
              << restarts_.causes_text() << std::endl;
  }
  say_about_flight_records(attempt.plan.flight_dir);
  // A failed job never exits with 0, also if a worker that left caused it.
  std::vector<Failure> by_cause = failures;
  if (cause) {
    by_cause.insert(by_cause.begin(), *cause);
  }
  for (const Failure& failure : by_cause) {
    if (!failure.status.success()) {
      return code_of(failure);
    }
  }
  return 1;
}

void Agent::say_about_flight_records(const std::string& dir) {
  if (has_flight_records(dir)) {
    run_dir_.keep();
    std::cerr << "argosy run: to find the rank that the others waited for: "
                 "argosy trace hang "
              << shell_join({dir}) << std::endl;
  }
}

void Agent::say_about_logs() const {
  if (chooses_omp_threads(options_.num_workers, inherited_) &&
      options_.env.count("OMP_NUM_THREADS") == 0) {
    std::cerr
        << "argosy run: OMP_NUM_THREADS is not set; each of the "
        << options_.num_workers
        << " workers gets 1 thread, so that they do not compete for cores. "
           "Set it to change this."
        << std::endl;
  }
  if (options_.log_dir.empty() && writes_logs(options_)) {
    std::cerr << "argosy run: log files are in " << run_dir_.path()
              << std::endl;
  }
}

} // namespace

int run_agent(
    const RunOptions& options,
    const std::vector<std::string>& argv,
    const Environment& inherited,
    Membership& membership,
    SignalSource& signals,
    int alive_fd,
    Consoles& consoles,
    const HangReader& hang_reader) {
  Agent agent(
      options,
      argv,
      inherited,
      membership,
      signals,
      alive_fd,
      consoles,
      hang_reader);
  return agent.run();
}

} // namespace argosy::launch
