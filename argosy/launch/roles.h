#pragma once

#include <string>
#include <vector>

#include "argosy/launch/node_assignment.h"
#include "argosy/launch/worker_env.h"

namespace argosy::launch {

// The processes that this node starts, in the order in which they start:
// servers first, since trainers connect to them. `role` names the workers of a
// job without servers; with servers they are called server and trainer.
std::vector<WorkerIdentity> local_workers(
    const NodeAssignment& assignment, const std::string& role);

// What Paddle's launchers, today's and the first, give the processes of a
// parameter-server job.
Variables paddle_ps_variables(
    const WorkerIdentity& worker, const NodeAssignment& assignment);

} // namespace argosy::launch
