#pragma once

#include <string>
#include <vector>

#include "argosy/launch/node_assignment.h"
#include "argosy/launch/worker_env.h"

namespace argosy::launch {

// Returns the processes of this node in start order: servers first, since
// trainers connect to them. `role` names the workers of a job without servers;
// otherwise the roles are server and trainer.
std::vector<WorkerIdentity> local_workers(
    const NodeAssignment& assignment, const std::string& role);

// The variables that Paddle's launchers (current and Fluid) set for processes
// of a parameter server job.
Variables paddle_ps_variables(
    const WorkerIdentity& worker, const NodeAssignment& assignment);

} // namespace argosy::launch
