#pragma once

#include <optional>
#include <string>

#include "argosy/common/environment.h"

namespace argosy {

// A text that the processes of one launcher on this host share, and others do
// not: the launcher's process id and start time. The launcher is the process at
// the other end of PMI_FD, else the parent process.
std::string local_job_key(const Environment& env);

// Returns a process's start time in ticks since boot; with the process id it
// identifies a process uniquely. nullopt if there is no such process.
std::optional<std::string> process_start_time(int pid);

} // namespace argosy
