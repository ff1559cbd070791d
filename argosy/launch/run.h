#pragma once

#include <string>
#include <vector>

namespace argosy::launch {

// Implements `argosy run`: interprets its arguments, runs the job and returns
// the exit code. Blocks. Call it from a process without other threads, because
// it forks. Throws InvalidArgument for an invalid command line, before starting
// anything.
int run(const std::vector<std::string>& words);

} // namespace argosy::launch
