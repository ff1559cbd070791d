#pragma once

#include <chrono>
#include <functional>

namespace argosy {
class World;
}

// Ranks for tests.
namespace argosy::testing {

// Runs `body` on `num_ranks` thread ranks that share a world, and passes each
// its World. Blocks. Throws RankFailed as spawn() does. Waits are limited to
// `timeout`, so that a hanging test fails.
void run_ranks(
    int num_ranks,
    const std::function<void(World&)>& body,
    std::chrono::milliseconds timeout = std::chrono::seconds(30));

} // namespace argosy::testing
