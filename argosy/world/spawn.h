#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"

namespace argosy {

struct RankTask;

enum class RankKind { Thread, Process };

struct SpawnOptions {
  RankKind ranks = RankKind::Thread;

  // Whether spawn() blocks until all ranks have ended. If not, join() of the
  // context that it returns does.
  bool join = true;

  // After the first failure, how long other ranks may take to end before
  // processes are killed and threads are abandoned.
  std::chrono::milliseconds grace = std::chrono::seconds(10);

  // Process ranks only: the command-line arguments of the re-executed program;
  // empty: those of this process. If set, the ranks belong to the first spawn()
  // that the program then reaches.
  std::vector<std::string> arguments = {};
  // Process ranks only: the folder for each rank's output, rank<k>.log. Empty:
  // output goes where this process's output goes.
  std::filesystem::path log_dir = {};
};

// Ranks that spawn() has started. They are watched whether or not somebody
// joins them: the first failure ends the others. A context that is gone does
// not stop its ranks; an error is then only logged. Thread-safe.
class SpawnContext {
 public:
  // spawn() makes them.
  SpawnContext(
      const RankTask& task, int num_ranks, const SpawnOptions& options);

  // Blocks until all ranks have ended, or until the deadline; returns whether
  // they have ended. Throws RankFailed, in each call, if one failed.
  bool join(Deadline deadline);
  void join(); // without a limit: ranks may train for days

  // What the function of spawn_bytes() returned on each rank. Joins first.
  const std::vector<std::string>& results();

 private:
  struct State;

  const std::shared_ptr<State> state_;
};

// Runs `function` on `num_ranks` ranks (-1: one per core), and blocks until all
// have ended, unless `join` is false. Inside it, get_rank() returns the rank,
// and init_parallel_env() joins the world of these ranks.
//
// Thread ranks run in this process. Process ranks re-execute this program: each
// runs main() up to this same call, runs `function` as its rank, and exits
// there. So the code before the call must reach it in the same way.
//
// If a rank throws, the others are stopped: store waits of thread ranks throw
// PeerLost; processes get SIGTERM and, after the grace period, SIGKILL. Then
// spawn() or join() throws RankFailed with the first failed rank and its
// message. Process ranks do not outlive this process.
std::shared_ptr<SpawnContext> spawn(
    const std::function<void()>& function,
    int num_ranks,
    const SpawnOptions& options = {});

// The same for a function with a result; spawn_results() takes any type. In a
// process rank of a later call, results() of this call are those that this
// process got; throws InvalidArgument if it had not joined them then.
std::shared_ptr<SpawnContext> spawn_bytes(
    const std::function<std::string()>& function,
    int num_ranks,
    const SpawnOptions& options = {});

} // namespace argosy
