#pragma once

#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/launch/options.h"

namespace argosy::launch {

// Returns the command for the program that the options name. Programs are
// searched in PATH; Python files and modules get an interpreter (PYTHON_EXEC,
// else python3). `environment` is the worker's. Throws InvalidArgument when the
// program is missing or not executable.
std::vector<std::string> program_argv(
    const RunOptions& options, const Environment& environment);

} // namespace argosy::launch
