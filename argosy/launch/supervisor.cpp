#include "argosy/launch/supervisor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/exit_note.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"
#include "argosy/common/no_restart_note.h"
#include "argosy/common/timeline.h"
#include "argosy/launch/descendants.h"
#include "argosy/launch/output.h"
#include "argosy/launch/start_worker.h"

namespace argosy::launch {

namespace {

using std::chrono::milliseconds;

// A batch system signals every process of a job, so the launcher receives a
// signal directly and again from its guard. Within this time it counts once.
constexpr milliseconds kSameSignal{100};

// How long a killed process may take to end.
constexpr milliseconds kKillLimit{10'000};

// Supervises the workers of one attempt on this node, with one thread and one
// poll(): signals, the pipes of the workers' output, the guard and stdin wake
// it up. Every worker leads a process group of its own (child.cpp), so a signal
// to the group also reaches the processes that the worker started. A process
// that leaves the group is still a descendant, because the launcher is a
// subreaper (descendants.h); end_leftovers() finds it.
class Supervisor {
 public:
  Supervisor(
      const JobPlan& plan,
      const Environment& inherited,
      const SuperviseOptions& options,
      SignalSource& signals)
      : plan_(plan),
        inherited_(inherited),
        options_(options),
        signals_(signals),
        stdin_fd_(options.stdin_fd),
        pump_(options.consoles),
        next_look_(Deadline::after(options.watch_interval)) {}

  Outcome run();

 private:
  // Each phase is harsher than the previous one.
  enum class Phase { Running, Lingering, Stopping, Killing };

  void start_all();
  void start(std::size_t index, const WorkerSpec& worker);
  bool finished();
  void step(milliseconds most);
  milliseconds wait_time(milliseconds most) const;
  void wait_for_events(milliseconds most);
  void check_guard(const pollfd& alive);
  void check_stdin(const pollfd& input);
  void take_signals();
  void on_ending_signal(int signal);
  void reap();
  void leave_exit_note(std::size_t index);
  void on_failure(std::size_t index);
  bool restarts_later(std::size_t index);
  void start_due();
  void look_at_peers();
  void look_for_hang();
  void stop(int signal);
  void kill_all();
  void escalate();
  void abandon();
  void signal_groups(int signal);
  void end_leftovers();

  const JobPlan& plan_;
  const Environment& inherited_;
  const SuperviseOptions& options_;
  SignalSource& signals_;
  int stdin_fd_;

  OutputPump pump_;
  std::map<pid_t, std::size_t> running_; // by process id: index in the plan
  std::vector<Fd> stdin_holds_;          // in the order of the plan
  std::vector<WorkerRestarts::TimePoint> started_; // in the order of the plan
  // By index: died, and are started again when the time comes.
  std::map<std::size_t, Deadline> waiting_;
  Outcome outcome_;
  Phase phase_ = Phase::Running;
  std::optional<Deadline> escalate_at_;
  std::optional<Deadline> same_signal_until_;
  Deadline next_look_;
  bool job_done_ = false; // on the other nodes, too
};

Outcome Supervisor::run() {
  try {
    start_all();
    while (!finished()) {
      step(milliseconds(60'000));
    }
    end_leftovers();
  } catch (...) {
    // If the third of four workers does not start, the first two must not stay.
    kill_descendants();
    throw;
  }
  pump_.finish();
  return std::move(outcome_);
}

void Supervisor::start_all() {
  outcome_.results.resize(plan_.workers.size());
  stdin_holds_.resize(plan_.workers.size());
  started_.resize(plan_.workers.size());
  for (std::size_t i = 0; i < plan_.workers.size(); ++i) {
    start(i, plan_.workers[i]);
    fault_point("launch.started");
  }
}

void Supervisor::start(std::size_t index, const WorkerSpec& worker) {
  StartedWorker started = start_worker(worker, inherited_, pump_);
  running_[started.pid] = index;
  outcome_.results[index] = {.pid = started.pid};
  stdin_holds_[index] = std::move(started.stdin_hold);
  started_[index] = time_now();
}

bool Supervisor::finished() {
  if (!running_.empty() || !waiting_.empty()) {
    return false;
  }
  // A node whose workers are done waits for the other nodes, which may fail and
  // cause a restart.
  return phase_ != Phase::Running || options_.watch == nullptr || job_done_;
}

void Supervisor::step(milliseconds most) {
  wait_for_events(wait_time(most));
  // Before reap(): a worker that died of a signal sent to the whole job then
  // counts as stopped, not as failed.
  take_signals();
  reap();
  start_due();
  pump_.pump();
  look_at_peers();
  look_for_hang();
  escalate();
}

milliseconds Supervisor::wait_time(milliseconds most) const {
  if (escalate_at_) {
    most = std::min(most, escalate_at_->remaining(most));
  }
  for (const auto& [index, due] : waiting_) {
    most = std::min(most, due.remaining(most));
  }
  if (options_.watch != nullptr && phase_ == Phase::Running) {
    most = std::min(most, next_look_.remaining(most));
  }
  most = pump_.wait_time(most);
  return options_.notice == nullptr ? most : options_.notice->wait_time(most);
}

void Supervisor::wait_for_events(milliseconds most) {
  std::vector<pollfd> polled = {
      {signals_.fd(), POLLIN, 0},
      {options_.alive_fd, POLLIN, 0}, // poll() ignores negative descriptors
      {stdin_fd_, POLLIN, 0},
      {options_.notice == nullptr ? -1 : options_.notice->fd(), POLLIN, 0}};
  pump_.watch(polled);
  const auto timeout = static_cast<int>(most.count());
  if (::poll(polled.data(), polled.size(), timeout) > 0) {
    check_guard(polled[1]);
    check_stdin(polled[2]);
  }
}

// The guard (guard.cpp) never writes to its pipe, so any event means that it
// died. Then nobody forwards signals to us, or cleans up after us.
void Supervisor::check_guard(const pollfd& alive) {
  if (alive.revents != 0 && outcome_.ending != Ending::Abandoned) {
    outcome_.ending = Ending::Abandoned;
    kill_all();
  }
}

// The content of stdin is ignored; its end means that our parent is gone.
void Supervisor::check_stdin(const pollfd& input) {
  std::array<char, 4096> dropped;
  if (input.revents != 0 &&
      ::read(stdin_fd_, dropped.data(), dropped.size()) <= 0) {
    stdin_fd_ = -1;
    on_ending_signal(SIGTERM);
  }
}

void Supervisor::take_signals() {
  while (const auto signal = signals_.next()) {
    const auto& ending = options_.ending_signals;
    if (*signal == SIGCHLD) {
      continue; // reap() follows in any case
    }
    if (std::ranges::find(ending, *signal) != ending.end()) {
      on_ending_signal(*signal);
    } else {
      signal_groups(*signal);
    }
  }
}

void Supervisor::on_ending_signal(int signal) {
  // The same signal again means that the user insists: kill at once.
  if (signal == outcome_.signal) {
    if (same_signal_until_->expired()) {
      kill_all();
    }
    return;
  }
  if (outcome_.signal == 0) {
    outcome_.signal = signal;
    same_signal_until_ = Deadline::after(kSameSignal);
    if (phase_ == Phase::Running) {
      outcome_.ending = Ending::Signalled;
      if (options_.notice != nullptr) {
        options_.notice->before_end(); // while the workers can still answer
      }
    }
  }
  stop(signal);
}

void Supervisor::reap() {
  std::vector<std::size_t> failed;
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto worker = running_.find(pid);
    if (worker == running_.end()) {
      continue; // an adopted orphan
    }
    WorkerResult& result = outcome_.results[worker->second];
    fault_point("launch.reap");
    result.status = ProcessStatus::from_wait(status);
    result.ended = std::chrono::system_clock::now();
    // A worker that ends after we asked it to is not a failure.
    result.stopped = phase_ >= Phase::Stopping;
    leave_exit_note(worker->second);
    const std::size_t index = worker->second;
    running_.erase(worker);
    if (result.failed() && !restarts_later(index)) {
      failed.push_back(index);
    }
  }
  if (!failed.empty() && phase_ == Phase::Running) {
    on_failure(failed.front());
  }
}

// Whether a worker that failed is started again instead of ending the others.
bool Supervisor::restarts_later(std::size_t index) {
  WorkerResult& result = outcome_.results[index];
  if (options_.restarts == nullptr || phase_ != Phase::Running ||
      outcome_.signal != 0 || has_no_restart_note(plan_.flight_dir)) {
    return false;
  }
  const WorkerIdentity& who = plan_.workers[index].identity;
  const auto pause = options_.restarts->on_death(
      who.rank, result.status, started_[index], time_now());
  if (!pause) {
    return false;
  }
  // What it started would take part twice. The number of the group is not given
  // to others while a member of it lives.
  ::kill(-result.pid, SIGKILL);
  std::cerr << "argosy run: " << who.role << " " << who.rank << " (process "
            << result.pid << "): " << result.status.text()
            << "; starting it again (" << options_.restarts->total() << " of "
            << options_.restarts->most() << ")" << std::endl;
  result.stopped = true; // not a failure of the job
  waiting_.emplace(index, Deadline::after(*pause));
  return true;
}

void Supervisor::start_due() {
  if (phase_ != Phase::Running) {
    waiting_.clear();
    return;
  }
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    if (!next->second.expired()) {
      ++next;
      continue;
    }
    const WorkerSpec& worker = plan_.workers[next->first];
    // It would explain a later death by this one's reason.
    std::error_code ignored;
    std::filesystem::remove(worker.error_file, ignored);
    start(
        next->first,
        replacement_of(worker, options_.restarts->count(worker.identity.rank)));
    next = waiting_.erase(next);
    fault_point("launch.restarted");
  }
}

// Other workers may be about to fail because this one is gone.
void Supervisor::leave_exit_note(std::size_t index) {
  const WorkerIdentity& who = plan_.workers[index].identity;
  if (plan_.flight_dir.empty() || who.server || phase_ >= Phase::Stopping) {
    return;
  }
  try {
    write_exit_note(plan_.flight_dir, who.rank, outcome_.results[index].status);
  } catch (const SystemError& error) {
    log::debug("[launch.exit_note] ", error.what());
  }
}

void Supervisor::on_failure(std::size_t index) {
  outcome_.ending = Ending::Failed;
  if (!running_.empty()) {
    const WorkerIdentity& who = plan_.workers[index].identity;
    std::cerr << "argosy run: " << who.role << " " << who.rank << " (process "
              << outcome_.results[index].pid
              << "): " << outcome_.results[index].status.text()
              << "; ending the other " << running_.size() << std::endl;
  }
  if (options_.linger.count() > 0) {
    phase_ = Phase::Lingering;
    escalate_at_ = Deadline::after(options_.linger);
  } else {
    stop(SIGTERM);
  }
}

void Supervisor::look_at_peers() {
  // A look is a round trip to the store, hence not at every wake-up.
  if (options_.watch == nullptr || phase_ != Phase::Running ||
      !next_look_.expired()) {
    return;
  }
  fault_point("launch.look");
  if (options_.watch->must_stop()) {
    outcome_.ending = Ending::Recalled;
    stop(SIGTERM);
  } else if (running_.empty() && waiting_.empty()) {
    job_done_ = options_.watch->all_done();
  }
  next_look_ = Deadline::after(options_.watch_interval);
}

void Supervisor::look_for_hang() {
  if (options_.notice != nullptr && phase_ == Phase::Running) {
    options_.notice->look();
  }
}

void Supervisor::stop(int signal) {
  fault_point("launch.stop");
  signal_groups(signal);
  if (phase_ < Phase::Stopping) {
    phase_ = Phase::Stopping;
    escalate_at_ = Deadline::after(options_.grace);
  }
}

void Supervisor::kill_all() {
  if (phase_ != Phase::Killing) {
    phase_ = Phase::Killing;
    escalate_at_ = Deadline::after(kKillLimit);
  }
  signal_groups(SIGKILL);
}

void Supervisor::escalate() {
  if (!escalate_at_ || !escalate_at_->expired()) {
    return;
  }
  if (phase_ == Phase::Lingering) {
    stop(SIGTERM);
  } else if (phase_ == Phase::Stopping) {
    kill_all();
  } else {
    abandon();
  }
}

// A process that waits for a device in the kernel, or became another user's,
// outlives SIGKILL. The job ends without it.
void Supervisor::abandon() {
  for (const auto& [pid, index] : running_) {
    WorkerResult& result = outcome_.results[index];
    result.status = {.signal = SIGKILL};
    result.ended = std::chrono::system_clock::now();
    result.stopped = true;
    std::cerr << "argosy run: rank " << plan_.workers[index].identity.rank
              << " (process " << pid << ") did not end within "
              << duration_text(kKillLimit) << " of SIGKILL and is left behind"
              << std::endl;
  }
  running_.clear();
  escalate_at_.reset();
}

void Supervisor::signal_groups(int signal) {
  for (const auto& [pid, index] : running_) {
    // Such a worker ends when its stdin ends; a signal would cut its clean-up
    // short.
    Fd& hold = stdin_holds_[index];
    if (hold && signal != SIGKILL) {
      hold.close();
    } else {
      ::kill(-pid, signal);
    }
  }
}

void Supervisor::end_leftovers() {
  if (descendants(::getpid()).empty()) {
    return;
  }
  // Descendants that workers left behind may still be working.
  if (phase_ < Phase::Stopping) {
    phase_ = Phase::Stopping;
    escalate_at_ = Deadline::after(options_.grace);
  }
  signal_descendants(SIGTERM);
  // Only our own children raise SIGCHLD when they end, so this loop looks for
  // the others.
  milliseconds pause(1);
  while (phase_ != Phase::Killing && !descendants(::getpid()).empty()) {
    step(pause);
    pause = std::min(pause * 2, milliseconds(50));
  }
  kill_descendants();
}

} // namespace

Outcome supervise(
    const JobPlan& plan,
    const Environment& inherited,
    const SuperviseOptions& options,
    SignalSource& signals) {
  return Supervisor(plan, inherited, options, signals).run();
}

} // namespace argosy::launch
