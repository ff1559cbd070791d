#include "argosy/world/spawn.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/world/spawn_ranks.h"

namespace argosy {

// Shared with the thread that runs the ranks, which may outlive the context.
struct SpawnContext::State {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  bool ended = false;
  std::exception_ptr error;
  std::optional<RankResults> results;

  // Returns whether it went well.
  bool run(const std::function<std::optional<RankResults>()>& ranks) {
    std::exception_ptr thrown;
    std::optional<RankResults> returned;
    try {
      returned = ranks();
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    error = thrown;
    results = std::move(returned);
    ended = true;
    changed.notify_all();
    return !thrown;
  }

  // With the mutex held.
  bool outcome() const {
    if (error) {
      std::rethrow_exception(error);
    }
    return ended;
  }

  void log_error() {
    try {
      const std::lock_guard lock(mutex);
      outcome();
    } catch (const std::exception& failure) {
      log::error("{}; nobody joins these ranks", failure.what());
    }
  }
};

bool SpawnContext::join(Deadline deadline) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(
      lock, deadline.time(), [this] { return state_->ended; });
  return state_->outcome();
}

void SpawnContext::join() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->ended; });
  state_->outcome();
}

const std::vector<std::string>& SpawnContext::results() {
  join();
  ARGOSY_CHECK(
      state_->results.has_value(),
      "[world.spawn] this process is a rank of a later spawn(), which started "
      "it before the results of this one were there: join this one first");
  return *state_->results;
}

namespace {

int count_of(int num_ranks) {
  ARGOSY_CHECK(
      num_ranks > 0 || num_ranks == -1,
      "[world.spawn] num_ranks={}, expected > 0, or -1 for one rank per core",
      num_ranks);
  const int num_cores =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return num_ranks == -1 ? num_cores : num_ranks;
}

// What runs the ranks and blocks until they have ended.
std::function<std::optional<RankResults>()> runner_of(
    const RankTask& task, int num_ranks, const SpawnOptions& options) {
  if (options.ranks == RankKind::Thread) {
    return [=] { return spawn_threads(task, num_ranks, options); };
  }
  const int call_number = enter_process_call(task);
  if (is_earlier_call()) {
    return [=] { return results_of_call(call_number, num_ranks); };
  }
  return [=] { return spawn_processes(task, call_number, num_ranks, options); };
}

} // namespace

SpawnContext::SpawnContext(
    const RankTask& task, int num_ranks, const SpawnOptions& options)
    : state_(std::make_shared<State>()) {
  const auto run = runner_of(task, count_of(num_ranks), options);
  if (options.join) {
    state_->run(run);
    join();
    return;
  }
  // The thread that starts processes must live as long as they do: they are
  // killed when it ends.
  std::thread([run, state = state_] {
    if (!state->run(run) && state.use_count() == 1) {
      state->log_error();
    }
  }).detach();
}

std::shared_ptr<SpawnContext> spawn_bytes(
    const std::function<std::string()>& function,
    int num_ranks,
    const SpawnOptions& options) {
  ARGOSY_CHECK(function != nullptr, "[world.spawn] the function is empty");
  return std::make_shared<SpawnContext>(RankTask{function}, num_ranks, options);
}

std::shared_ptr<SpawnContext> spawn(
    const std::function<void()>& function,
    int num_ranks,
    const SpawnOptions& options) {
  ARGOSY_CHECK(function != nullptr, "[world.spawn] the function is empty");
  const auto without_result = [function] {
    function();
    return std::string();
  };
  return std::make_shared<SpawnContext>(
      RankTask{.function = without_result, .has_result = false},
      num_ranks,
      options);
}

} // namespace argosy
