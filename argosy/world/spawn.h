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

  // After the first rank failed, how long the others may take to end before
  // they are ended (processes) or left behind (threads, which nobody can end).
  std::chrono::milliseconds grace = std::chrono::seconds(10);

  // Process ranks only: the words after the program's name in the re-executed
  // command; empty: those of this process. With words of their own, the ranks
  // are those of the first spawn() that the program then comes to.
  std::vector<std::string> arguments;
  // Process ranks only: where each rank's output goes, as rank<k>.log. Empty:
  // where this process's output goes.
  std::filesystem::path log_dir;
};

// Runs `function` on `num_ranks` ranks (-1: one per core) and returns when all
// have ended. Inside it, get_rank() tells who one is, and init_parallel_env()
// joins the world of these ranks.
//
// Thread ranks run in this process. Process ranks re-execute this program: each
// runs main() again up to this very call, runs `function` as its rank, and ends
// there; so what stands before the call must come to it in the same way.
//
// When a rank throws, the others are ended: waits of thread ranks in the store
// throw PeerLost, processes get SIGTERM and, after the grace period, SIGKILL.
// Then RankFailed is thrown, with the rank that failed first and its message.
// Process ranks do not outlive this process.
void spawn(
    const std::function<void()>& function,
    int num_ranks,
    const SpawnOptions& options = {});

} // namespace argosy
