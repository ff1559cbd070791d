#pragma once

#include <optional>
#include <string>

#include "argosy/common/environment.h"

namespace argosy {

// Text that the processes which one launcher started on this host share, and
// others do not: the launcher's process id and start time. The launcher is the
// process at the other end of PMI_FD, else this process's parent.
std::string local_job_key(const Environment& env);

// When the process started, in ticks since boot: with the id it names a process
// for good. Nothing when there is no such process.
std::optional<std::string> process_start_time(int pid);

} // namespace argosy
