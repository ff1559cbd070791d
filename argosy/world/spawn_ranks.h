#pragma once

#include <functional>

#include "argosy/world/spawn.h"

namespace argosy {

// The two implementations of spawn(). Not installed.
void spawn_threads(
    const std::function<void()>& function,
    int num_ranks,
    const SpawnOptions& options);
void spawn_processes(
    const std::function<void()>& function,
    int num_ranks,
    const SpawnOptions& options);

} // namespace argosy
