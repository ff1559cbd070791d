#include <torch/csrc/distributed/c10d/Store.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/mem_kv.h"
#include "argosy/torch_hooks/amx.h"
#include "argosy/torch_hooks/openblas.h"
#include "argosy/world/data_ranks.h"
#include "argosy/world/record.h"
#include "argosy/world/spawn_ranks.h"
#include "argosy/world/thread_binding.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

// Shared by the threads and their parent; an abandoned thread keeps it alive.
struct ThreadJob {
  ThreadJob(RankFunction body, int num_ranks)
      : function(std::move(body)),
        ended(num_ranks, false),
        results(num_ranks) {}

  const RankFunction function;
  const std::shared_ptr<store::MemKv> kv = std::make_shared<store::MemKv>();

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::vector<bool> ended;
  int num_ended = 0;
  std::optional<std::pair<int, std::string>> first_failure;
  RankResults results;

  bool all_ended() const { return num_ended == static_cast<int>(ended.size()); }
};

LaunchInfo thread_launch_info(int rank, int size) {
  return {
      .source = "spawn",
      .rank = rank,
      .size = size,
      .local_rank = rank,
      .local_size = size};
}

// Records the failure before it aborts the store: the abort makes the other
// ranks fail, too, and the first failure must be the cause.
void note_failure(ThreadJob& job, int rank, const std::string& message) {
  {
    const std::lock_guard lock(job.mutex);
    if (!job.first_failure) {
      job.first_failure = {rank, message};
    }
  }
  job.changed.notify_all();
  job.kv->abort(str("rank ", rank, " failed: ", message));
}

void note_end(ThreadJob& job, int rank, std::string result) {
  const std::lock_guard lock(job.mutex);
  job.results[rank] = std::move(result);
  job.ended[rank] = true;
  ++job.num_ended;
  job.changed.notify_all();
}

void run_thread_rank(ThreadJob& job, int rank, int size) {
  thread_binding().launch = thread_launch_info(rank, size);
  thread_binding().store = c10::make_intrusive<store::KvStore>(job.kv);
  bind_data_ranks(nullptr, size); // until it joins a world
  std::string result;
  try {
    result = job.function();
  } catch (...) {
    const std::string message = current_exception_text();
    note_failure(job, rank, message);
    if (const auto world = current_world()) {
      world->abort(message);
    }
  }
  bind_world(nullptr);
  thread_binding() = {};
  note_end(job, rank, std::move(result));
}

// Without a failure there is no limit, since ranks may train for days. The
// grace period starts with the first failure.
void wait_for_ranks(ThreadJob& job, std::chrono::milliseconds grace) {
  std::unique_lock lock(job.mutex);
  job.changed.wait(
      lock, [&] { return job.all_ended() || job.first_failure.has_value(); });
  job.changed.wait_for(lock, grace, [&] { return job.all_ended(); });
}

// Joins threads that have ended; returns the ranks of those that have not. A
// thread cannot be killed, so those are detached; each holds a reference to the
// job, which therefore outlives them.
std::vector<int> join_ended(ThreadJob& job, std::vector<std::thread>& threads) {
  std::vector<bool> ended;
  {
    const std::lock_guard lock(job.mutex);
    ended = job.ended;
  }
  std::vector<int> left_behind;
  for (std::size_t rank = 0; rank < threads.size(); ++rank) {
    if (ended[rank]) {
      threads[rank].join();
    } else {
      threads[rank].detach();
      left_behind.push_back(static_cast<int>(rank));
    }
  }
  return left_behind;
}

} // namespace

RankResults spawn_threads(
    const RankTask& task, int num_ranks, const SpawnOptions& options) {
  // Before ranks multiply matrices.
  torch_hooks::install_openblas_core();
  torch_hooks::install_amx_limit();
  const auto job = std::make_shared<ThreadJob>(task.function, num_ranks);
  std::vector<std::thread> threads;
  threads.reserve(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back(
        [job, rank, num_ranks] { run_thread_rank(*job, rank, num_ranks); });
  }
  wait_for_ranks(*job, options.grace);
  const std::vector<int> left_behind = join_ended(*job, threads);
  if (!job->first_failure) {
    return std::move(job->results);
  }
  const auto& [rank, message] = *job->first_failure;
  std::string text =
      str("[world.spawn] rank ", rank, " of ", num_ranks, " failed: ", message);
  if (!left_behind.empty()) {
    text += str_format(
        "; rank {} did not end within {} after that and still runs",
        ranges_text(left_behind),
        duration_text(options.grace));
  }
  throw RankFailed(rank, text);
}

} // namespace argosy
