#pragma once

#include <string>
#include <vector>

namespace argosy::launch {

// `argosy run`: understands the words after it, runs the job to its end and
// returns the exit code. Call it from a process without other threads: it
// forks. Throws InvalidArgument for a command line that makes no sense, before
// anything is started.
int run(const std::vector<std::string>& words);

} // namespace argosy::launch
