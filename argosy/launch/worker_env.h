#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "argosy/common/environment.h"
#include "argosy/launch/node_assignment.h"

namespace argosy::launch {

using Variables = std::map<std::string, std::string>;

// One process of a job; rank and size count within its role.
struct WorkerIdentity {
  std::string role = "default";
  bool server = false;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;

  bool operator==(const WorkerIdentity&) const = default;
};

// The variables that torchrun sets for a worker. `inherited` is needed for
// variables that a user's value overrides (OMP_NUM_THREADS, NCCL's).
Variables torch_variables(
    const WorkerIdentity& worker,
    const NodeAssignment& assignment,
    int max_restarts,
    const std::string& error_file,
    const Environment& inherited);

// The variables that Paddle's launcher sets for a worker of a collective job.
// Endpoints that are unknown or too long are omitted.
Variables paddle_variables(
    const WorkerIdentity& worker,
    const NodeAssignment& assignment,
    const std::string& log_dir);

// Whether torch_variables() sets OMP_NUM_THREADS.
bool chooses_omp_threads(int local_size, const Environment& inherited);

// PADDLE_TRAINER_ENDPOINTS is not set if it is longer than this.
inline constexpr std::size_t kMostEndpointsText = 120 * 1024;

} // namespace argosy::launch
