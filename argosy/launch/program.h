#pragma once

#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/launch/options.h"

namespace argosy::launch {

// The words to execute for the program that the options name, the first of
// them a path: programs are looked up in PATH, Python files and modules get
// their interpreter (PYTHON_EXEC, else python3). `environment` is the worker's.
// Throws InvalidArgument when it is missing or cannot be executed.
std::vector<std::string> program_argv(
    const RunOptions& options, const Environment& environment);

} // namespace argosy::launch
