#pragma once

#include <string>
#include <vector>

#include "argosy/launch/hang_notice.h"

namespace argosy::launch {

// Implements `argosy run`: interprets its arguments, runs the job and returns
// the exit code. Blocks. Call it from a process without other threads, because
// it forks. Throws InvalidArgument for an invalid command line, before starting
// anything. Without `hang_reader`, it says nothing of workers that hang.
int run(
    const std::vector<std::string>& words, const HangReader& hang_reader = {});

} // namespace argosy::launch
