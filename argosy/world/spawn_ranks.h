#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "argosy/world/spawn.h"

// The two implementations of spawn(). Not installed.
namespace argosy {

using RankFunction = std::function<std::string()>;
using RankResults = std::vector<std::string>; // by rank

struct RankTask {
  RankFunction function;
  bool has_result = true; // if not, nobody reads what the function returns
};

// Both block until all ranks have ended.
RankResults spawn_threads(
    const RankTask& task, int num_ranks, const SpawnOptions& options);
RankResults spawn_processes(
    const RankTask& task,
    int call_number,
    int num_ranks,
    const SpawnOptions& options);

// Which call of this program starts process ranks, counted from 0. Call it on
// the thread that calls spawn(): in a process that a spawn() of its parent has
// started, runs the function and exits if this is the call.
int enter_process_call(const RankTask& task);

// Whether this process is a rank of a later call, and so leaves this one out.
bool is_earlier_call();

// The results of a call that has ended, in the parent and in ranks of later
// calls. Nothing if it had not ended when this rank was started.
std::optional<RankResults> results_of_call(int call_number, int num_ranks);

} // namespace argosy
