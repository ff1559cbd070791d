#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "argosy/world/launch_info.h"

namespace c10d {
class Store;
}

namespace argosy {

class Environment;
class World;

struct InitOptions {
  // The time limit for joining, and the world's default limit for later waits.
  // Unset: ARGOSY_TIMEOUT, else PADDLE_PG_TIMEOUT, else 30 minutes.
  std::optional<std::chrono::milliseconds> timeout;
};

// Returns the time limit that the environment sets.
std::chrono::milliseconds default_timeout(const Environment& environment);

// Makes this thread a rank of the job that started the process: finds out its
// rank from the launch environment (docs/launch-environments.md), meets all
// other ranks, and binds the world to the calling thread.
//
// All ranks must call it; blocks until all have arrived. A process without a
// launcher is a world of one, so the same program runs alone. A second call
// returns the existing world.
//
// Throws InvalidArgument for an invalid environment, naming the variable;
// TimeoutError, naming the ranks that did not come; StoreError when the store
// cannot be reached or served.
std::shared_ptr<World> init_parallel_env(const InitOptions& options = {});

// The same as `rank` of `size` in a store that all ranks have opened, for
// programs that number their ranks themselves.
std::shared_ptr<World> init(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const InitOptions& options = {});

// The same from a complete description, such as adopt() returns.
std::shared_ptr<World> init(
    const LaunchInfo& info, const InitOptions& options = {});

// Broadcasts a short text: each rank calls it once, with its own text, and gets
// rank 0's.
using TextBroadcast = std::function<std::string(const std::string& own)>;

// The same for ranks that can already communicate but have no store: rank 0
// serves one and broadcasts its address. See world/mpi.h.
std::shared_ptr<World> init(
    LaunchInfo info,
    const TextBroadcast& from_rank_0,
    const InitOptions& options = {});

// Whether the calling thread has a world.
bool is_initialized();

// Always true; for compatibility with torch.distributed.
bool is_available();

// The calling thread's rank and world size. Before initialization, those of the
// launch environment.
int get_rank();
int get_world_size();

// Ends the calling thread's world. Does nothing if there is none. If all ranks
// have called it, they may make another world, also in the same store.
void destroy_process_group();

// The calling thread's place in its job: that of its world, or before
// initialisation the one that the launch environment gives.
LaunchInfo launch_info();

} // namespace argosy
