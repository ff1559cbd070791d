#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace argosy {

enum class RankKind { Thread, Process };

struct SpawnOptions {
  RankKind ranks = RankKind::Thread;

  // After the first failure, how long other ranks may take to end before
  // processes are killed and threads are abandoned.
  std::chrono::milliseconds grace = std::chrono::seconds(10);

  // Process ranks only: the command-line arguments of the re-executed program;
  // empty: those of this process. If set, the ranks belong to the first spawn()
  // that the program then reaches.
  std::vector<std::string> arguments;
  // Process ranks only: the folder for each rank's output, rank<k>.log. Empty:
  // output goes where this process's output goes.
  std::filesystem::path log_dir;
};

// Runs `function` on `num_ranks` ranks (-1: one per core); blocks until all
// have ended. Inside it, get_rank() returns the rank, and init_parallel_env()
// joins the world of these ranks.
//
// Thread ranks run in this process. Process ranks re-execute this program: each
// runs main() up to this same call, runs `function` as its rank, and exits
// there. So the code before the call must reach it in the same way.
//
// If a rank throws, the others are stopped: store waits of thread ranks throw
// PeerLost; processes get SIGTERM and, after the grace period, SIGKILL. Then
// spawn() throws RankFailed with the first failed rank and its message. Process
// ranks do not outlive this process.
void spawn(
    const std::function<void()>& function,
    int num_ranks,
    const SpawnOptions& options = {});

} // namespace argosy
