#include "argosy/testing/ranks.h"

#include "argosy/world/init.h"
#include "argosy/world/spawn.h"
#include "argosy/world/world.h"

namespace argosy::testing {

void run_ranks(
    int num_ranks,
    const std::function<void(World&)>& body,
    std::chrono::milliseconds timeout) {
  spawn(
      [&] {
        const auto world = init_parallel_env({.timeout = timeout});
        body(*world);
        destroy_process_group();
      },
      num_ranks,
      {.grace = timeout});
}

} // namespace argosy::testing
