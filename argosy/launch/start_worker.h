#pragma once

#include <sys/types.h>

#include "argosy/common/environment.h"
#include "argosy/launch/output.h"
#include "argosy/launch/plan.h"

namespace argosy::launch {

// Starts the process that `worker` describes, with its folder, files and pipes;
// `pump` gets the ends that the launcher reads. Throws SystemError.
pid_t start_worker(
    const WorkerSpec& worker, const Environment& inherited, OutputPump& pump);

} // namespace argosy::launch
