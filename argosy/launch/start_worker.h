#pragma once

#include <sys/types.h>

#include "argosy/common/environment.h"
#include "argosy/launch/output.h"
#include "argosy/launch/plan.h"

namespace argosy::launch {

struct StartedWorker {
  pid_t pid = 0;
  Fd stdin_hold; // set if the worker ends with its standard input
};

// Starts a worker with its folder, files and pipes. `pump` gets the pipes' read
// ends. Throws SystemError.
StartedWorker start_worker(
    const WorkerSpec& worker, const Environment& inherited, OutputPump& pump);

// What to start in place of a worker that died: the same, which appends to the
// same files. `count`: how often the worker was started again, this time
// included. A pure function.
WorkerSpec replacement_of(const WorkerSpec& worker, int count);

} // namespace argosy::launch
