#include "argosy/world/spawn.h"

#include <thread>

#include "argosy/common/error.h"
#include "argosy/world/spawn_ranks.h"

namespace argosy {

void spawn(
    const std::function<void()>& function,
    int num_ranks,
    const SpawnOptions& options) {
  ARGOSY_CHECK(
      num_ranks > 0 || num_ranks == -1,
      "[world.spawn] num_ranks={}, expected > 0, or -1 for one rank per core",
      num_ranks);
  ARGOSY_CHECK(function != nullptr, "[world.spawn] the function is empty");
  const int num_cores =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int count = num_ranks == -1 ? num_cores : num_ranks;
  if (options.ranks == RankKind::Thread) {
    spawn_threads(function, count, options);
  } else {
    spawn_processes(function, count, options);
  }
}

} // namespace argosy
