#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/net.h"
#include "argosy/world/launch_info.h"

namespace c10d {
class Store;
}

namespace argosy {

class Environment;
class World;

struct InitOptions {
  // How long to wait for the other ranks, and the world's limit for later
  // waits. Unset: ARGOSY_TIMEOUT, else PADDLE_PG_TIMEOUT, else 30 minutes.
  std::optional<std::chrono::milliseconds> timeout;
};

// What the environment says about it: ARGOSY_TIMEOUT and so on.
std::chrono::milliseconds default_timeout(const Environment& environment);

// Makes this thread a rank of the job that started the process: finds out who
// we are from the launch environment (docs/launch-environments.md), meets all
// other ranks, and binds the world to the calling thread.
//
// All ranks must call it; it returns when all have arrived. A process that
// nobody launched is a world of one, so the same program runs alone. A second
// call returns the world of the first.
//
// Throws InvalidArgument for an environment that is wrong (it names the
// variable), TimeoutError naming the ranks that did not come, StoreError when
// the meeting point cannot be reached or served.
std::shared_ptr<World> init_parallel_env(const InitOptions& options = {});

// The same, as `rank` of `size`, in a store that all ranks opened. For programs
// that have ways of their own to tell their ranks apart.
std::shared_ptr<World> init(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const InitOptions& options = {});

// The same from a complete description, such as adopt() returns.
std::shared_ptr<World> init(
    const LaunchInfo& info, const InitOptions& options = {});

// Tells all ranks a short text of rank 0: each rank calls it once, with its own
// text, and gets rank 0's.
using TextBroadcast = std::function<std::string(const std::string& own)>;

// The same for ranks that can already talk in some way of their own, but have
// no store: rank 0 serves one and tells the others where. See world/mpi.h.
std::shared_ptr<World> init(
    LaunchInfo info,
    const TextBroadcast& from_rank_0,
    const InitOptions& options = {});

// Whether the calling thread has a world.
bool is_initialized();

// Whether this build can run on many ranks. Always true.
bool is_available();

// The calling thread's rank and number of ranks. Before initialisation, those
// that the launch environment gives.
int get_rank();
int get_world_size();

// Ends the calling thread's world. Does nothing when there is none.
void destroy_process_group();

// The calling thread's place in its job: that of its world, or before
// initialisation the one that the launch environment gives.
LaunchInfo launch_info();

} // namespace argosy
