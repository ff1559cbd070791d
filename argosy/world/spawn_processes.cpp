#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "argosy/common/deadline.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/error_file.h"
#include "argosy/common/file.h"
#include "argosy/common/process_status.h"
#include "argosy/common/process_watch.h"
#include "argosy/common/text.h"
#include "argosy/store/credentials.h"
#include "argosy/store/kv_server.h"
#include "argosy/world/record.h"
#include "argosy/world/spawn_ranks.h"

namespace argosy {

namespace {

// Tells a re-executed program which spawn() call created it: "<number of the
// call>:<pid of the parent>:<file for the result>".
constexpr char kSpawnVariable[] = "ARGOSY_SPAWN";

// The calls of this process that start process ranks. A child runs the same
// code as its parent, so both count them alike.
struct Calls {
  std::atomic<int> next{0};
  std::mutex mutex;
  std::map<int, RankResults> results; // of those that ended; guarded by mutex
};

Calls& calls() {
  static Calls instance;
  return instance;
}

// In the folder of a call: what its ranks returned, and what earlier calls did.
std::filesystem::path result_file(
    const std::filesystem::path& folder, int rank) {
  return folder / str("rank", rank, ".result");
}
std::filesystem::path earlier_file(
    const std::filesystem::path& folder, int call_number, int rank) {
  return folder / str("call", call_number, ".rank", rank, ".result");
}

// From here to run_as_rank(): runs in the child.

struct Origin {
  int call_number;
  pid_t parent;
  std::filesystem::path result_file;
};

std::optional<Origin> spawned_by() {
  const auto text = Environment::of_process().find(kSpawnVariable);
  if (!text) {
    return std::nullopt;
  }
  // The file is last, since its name may contain the separator.
  const auto parts = split(*text, ':');
  const auto call = parse_int(parts.at(0));
  const auto parent = parts.size() > 2 ? parse_int(parts[1]) : std::nullopt;
  ARGOSY_CHECK(
      call && parent,
      "[world.spawn] {}={} was not set by spawn()",
      kSpawnVariable,
      *text);
  return Origin{
      static_cast<int>(*call),
      static_cast<pid_t>(*parent),
      text->substr(parts[0].size() + parts[1].size() + 2)};
}

[[noreturn]] void run_as_rank(const RankTask& task, const Origin& origin) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int code = 1;
  // The parent may have died before prctl().
  if (::getppid() == origin.parent) {
    // A spawn() inside the function is an independent call.
    ::unsetenv(kSpawnVariable);
    code = record([&] {
      const std::string result = task.function();
      if (task.has_result) {
        write_file(origin.result_file, result);
      }
    });
  }
  std::cout.flush();
  std::fflush(nullptr);
  // The rank ends here; the rest of main() is for the parent. Skips static
  // destructors, because other threads may still run.
  ::_exit(code); // lint: allow exit
}

// From here to start_ranks(): runs in the parent.

struct RankProcess {
  pid_t pid = -1;
  std::shared_ptr<const ProcessWatch> watch;
  std::filesystem::path error_file;
  std::filesystem::path log_file; // empty: output is not captured
  std::optional<ProcessStatus> status;
};

std::vector<std::string> own_arguments() {
  std::vector<std::string> words =
      split(read_file("/proc/self/cmdline").value_or(""), '\0');
  if (!words.empty()) {
    words.pop_back(); // the text ends with a separator
  }
  return words;
}

// What all ranks of a call have in common.
struct CallSetup {
  int num_ranks;
  int port; // of the store
  const store::OfferedSecret& secret;
  int target; // the call that the ranks belong to, as they count
  std::filesystem::path folder;
};

Environment rank_environment(
    int rank, const CallSetup& call, const RankProcess& process) {
  Environment environment = Environment::of_process();
  const std::string rank_text = std::to_string(rank);
  const std::string size_text = std::to_string(call.num_ranks);
  for (const char* name : {"RANK", "LOCAL_RANK", "ROLE_RANK"}) {
    environment.set(name, rank_text);
  }
  for (const char* name :
       {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"}) {
    environment.set(name, size_text);
  }
  environment.set("GROUP_RANK", "0");
  environment.set("GROUP_WORLD_SIZE", "1");
  environment.set("MASTER_ADDR", "127.0.0.1");
  environment.set("MASTER_PORT", std::to_string(call.port));
  // Tells rank 0 to connect to the parent's store instead of serving one.
  environment.set(
      "ARGOSY_STORE", str("tcp://127.0.0.1:", call.port, "?serve=no"));
  call.secret.offer(environment);
  environment.set("TORCHELASTIC_USE_AGENT_STORE", "False");
  environment.set("TORCHELASTIC_RESTART_COUNT", "0");
  environment.set(
      "TORCHELASTIC_RUN_ID", str("spawn-", ::getpid(), "-", call.port));
  environment.set("TORCHELASTIC_ERROR_FILE", process.error_file.string());
  environment.set(
      kSpawnVariable,
      str(call.target,
          ":",
          ::getpid(),
          ":",
          result_file(call.folder, rank).string()));
  // The parent's choice of source does not apply to its ranks.
  environment.unset("ARGOSY_ADOPT");
  return environment;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) {
    result.push_back(word.data());
  }
  result.push_back(nullptr);
  return result;
}

void start(
    RankProcess& process,
    std::vector<std::string> words,
    const Environment& environment) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment.variables()) {
    entries.push_back(name + "=" + value);
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (!process.log_file.empty()) {
    ::posix_spawn_file_actions_addopen(
        &actions,
        STDOUT_FILENO,
        process.log_file.c_str(),
        O_WRONLY | O_CREAT | O_TRUNC,
        0644);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  // glibc's posix_spawn() does not copy the address space, which may be huge,
  // and is safe in a program with threads.
  const int error = ::posix_spawn(
      &process.pid,
      "/proc/self/exe",
      &actions,
      nullptr,
      pointers(words).data(),
      pointers(entries).data());
  ::posix_spawn_file_actions_destroy(&actions);
  errno = error;
  if (error != 0) {
    process.pid = -1;
    throw SystemError(with_errno("[world.spawn] cannot start a process"));
  }
  process.watch = ProcessWatch::of(process.pid);
}

// Waits for this process id only: other children belong to the program.
void reap(RankProcess& process) {
  int status = 0;
  if (::waitpid(process.pid, &status, 0) == process.pid) {
    process.status = ProcessStatus::from_wait(status);
  } else {
    process.status = ProcessStatus{.exit_code = 1};
  }
  process.watch.reset();
}

std::string failure_text(const RankProcess& process) {
  if (const auto report = read_error_file(process.error_file)) {
    return report->message;
  }
  std::string text = process.status->text();
  if (!process.log_file.empty()) {
    text += str("; its output is in ", process.log_file.string());
  }
  return text;
}

class RankProcesses {
 public:
  explicit RankProcesses(int size) : processes_(size) {}

  // Kills everything that was started, also if starting threw half-way.
  ~RankProcesses() {
    signal_running(SIGKILL);
    for (RankProcess& process : processes_) {
      if (running(process)) {
        reap(process);
      }
    }
  }

  RankProcess& operator[](int rank) { return processes_[rank]; }

  // Waits until all have ended; returns the rank that failed first.
  std::optional<int> join(std::chrono::milliseconds grace) {
    while (num_running() > 0) {
      wait_for_one();
      if (first_failed_ && !kill_at_) {
        signal_running(SIGTERM);
        kill_at_ = Deadline::after(grace);
      }
      if (kill_at_ && kill_at_->expired()) {
        signal_running(SIGKILL);
      }
    }
    return first_failed_;
  }

 private:
  static bool running(const RankProcess& process) {
    return process.pid > 0 && !process.status;
  }

  int num_running() const {
    return static_cast<int>(std::ranges::count_if(processes_, running));
  }

  void signal_running(int signal) {
    for (const RankProcess& process : processes_) {
      if (running(process)) {
        ::kill(process.pid, signal);
      }
    }
  }

  // Sleeps until a process may have ended, without a handler of SIGCHLD, which
  // would be the program's. A process without a descriptor is asked often.
  void sleep() const {
    std::vector<pollfd> fds;
    std::optional<std::chrono::milliseconds> limit;
    for (const RankProcess& process : processes_) {
      if (running(process) && process.watch->fd() >= 0) {
        fds.push_back({process.watch->fd(), POLLIN, 0});
      } else if (running(process)) {
        limit = std::chrono::milliseconds(5);
      }
    }
    if (kill_at_) {
      limit =
          kill_at_->remaining(limit.value_or(std::chrono::milliseconds(100)));
    }
    ::poll(
        fds.data(), fds.size(), limit ? static_cast<int>(limit->count()) : -1);
  }

  void wait_for_one() {
    sleep();
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      RankProcess& process = processes_[rank];
      if (!running(process) || !process.watch->has_ended()) {
        continue;
      }
      reap(process);
      if (!process.status->success() && !first_failed_) {
        first_failed_ = static_cast<int>(rank);
      }
    }
  }

  std::vector<RankProcess> processes_;
  std::optional<int> first_failed_;
  std::optional<Deadline> kill_at_;
};

void start_ranks(
    RankProcesses& processes,
    const CallSetup& call,
    const SpawnOptions& options) {
  std::vector<std::string> words = own_arguments();
  if (!options.arguments.empty()) {
    words.resize(1);
    words.insert(
        words.end(), options.arguments.begin(), options.arguments.end());
  }
  for (int rank = 0; rank < call.num_ranks; ++rank) {
    RankProcess& process = processes[rank];
    process.error_file = call.folder / str("rank", rank, ".error.json");
    if (!options.log_dir.empty()) {
      process.log_file = options.log_dir / str("rank", rank, ".log");
    }
    start(process, words, rank_environment(rank, call, process));
  }
}

// Ranks run the code between the earlier calls and theirs, which may use what
// those returned.
void pass_on_results(const std::filesystem::path& folder, int call_number) {
  const std::lock_guard lock(calls().mutex);
  for (const auto& [earlier, results] : calls().results) {
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      if (earlier < call_number) {
        write_file(
            earlier_file(folder, earlier, static_cast<int>(rank)),
            results[rank]);
      }
    }
  }
}

RankResults read_results(const CallSetup& call) {
  RankResults results;
  for (int rank = 0; rank < call.num_ranks; ++rank) {
    auto result = read_file(result_file(call.folder, rank));
    if (!result) {
      throw RankFailed(
          rank,
          str_format(
              "[world.spawn] rank {} of {} failed: it ended with exit code 0 "
              "before the function returned",
              rank,
              call.num_ranks));
    }
    results.push_back(std::move(*result));
  }
  return results;
}

} // namespace

// fork() without exec() is not safe once LibTorch has started threads, so a
// rank is this program started anew. The child runs main() again until it
// reaches the spawn() with the number that ARGOSY_SPAWN names; it skips earlier
// ones, which its parent has completed.
int enter_process_call(const RankTask& task) {
  const int call_number = calls().next++;
  if (const auto origin = spawned_by();
      origin && origin->call_number == call_number) {
    run_as_rank(task, *origin);
  }
  return call_number;
}

bool is_earlier_call() {
  return spawned_by().has_value();
}

std::optional<RankResults> results_of_call(int call_number, int num_ranks) {
  const auto folder = spawned_by()->result_file.parent_path();
  RankResults results;
  for (int rank = 0; rank < num_ranks; ++rank) {
    auto result = read_file(earlier_file(folder, call_number, rank));
    if (!result) {
      return std::nullopt;
    }
    results.push_back(std::move(*result));
  }
  return results;
}

RankResults spawn_processes(
    const RankTask& task,
    int call_number,
    int num_ranks,
    const SpawnOptions& options) {
  const TempDir dir("argosy-spawn");
  // Served by the parent, so that it outlives every rank.
  auto credentials = store::credentials_of(Environment::of_process());
  credentials.secret = store::Secret::random();
  const store::KvServer store(
      Endpoint{"127.0.0.1", 0}, {.credentials = credentials});
  const store::OfferedSecret offered(*credentials.secret);
  const CallSetup call{
      .num_ranks = num_ranks,
      .port = store.port(),
      .secret = offered,
      // With other arguments, the program runs differently, up to its first
      // spawn().
      .target = options.arguments.empty() ? call_number : 0,
      .folder = dir.path()};
  pass_on_results(call.folder, call.target);
  RankProcesses processes(num_ranks);
  start_ranks(processes, call, options);
  if (const auto failed = processes.join(options.grace)) {
    throw RankFailed(
        *failed,
        str_format(
            "[world.spawn] rank {} of {} failed: {}",
            *failed,
            num_ranks,
            failure_text(processes[*failed])));
  }
  if (!task.has_result) {
    return {};
  }
  RankResults results = read_results(call);
  const std::lock_guard lock(calls().mutex);
  calls().results[call_number] = results;
  return results;
}

} // namespace argosy
