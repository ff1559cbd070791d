#include "argosy/launch/worker_env.h"

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::launch {

bool chooses_omp_threads(int local_size, const Environment& inherited) {
  return local_size > 1 && !inherited.has("OMP_NUM_THREADS");
}

// The names and values are torchrun's, so that programs written for it run
// unchanged. Rank 0 serves the store at MASTER_PORT itself (no agent store);
// the launcher only reserves the port (reserved_ports.h).
Variables torch_variables(
    const WorkerIdentity& worker,
    const NodeAssignment& assignment,
    int max_restarts,
    const std::string& error_file,
    const Environment& inherited) {
  Variables variables = {
      {"LOCAL_RANK", str(worker.local_rank)},
      {"RANK", str(worker.rank)},
      {"GROUP_RANK", str(assignment.node_rank)},
      {"ROLE_RANK", str(worker.rank)},
      {"ROLE_NAME", worker.role},
      {"LOCAL_WORLD_SIZE", str(worker.local_size)},
      {"WORLD_SIZE", str(worker.size)},
      {"GROUP_WORLD_SIZE", str(assignment.num_nodes())},
      {"ROLE_WORLD_SIZE", str(worker.size)},
      {"MASTER_ADDR", assignment.master.host},
      {"MASTER_PORT", str(assignment.master.port)},
      {"TORCHELASTIC_RESTART_COUNT", str(assignment.attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", str(max_restarts)},
      {"TORCHELASTIC_RUN_ID", assignment.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", error_file},
  };
  // As torchrun does: without it, an NCCL operation whose peer died hangs.
  for (const char* name :
       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"}) {
    if (!inherited.has(name)) {
      variables.emplace(name, "1");
    }
  }
  if (chooses_omp_threads(worker.local_size, inherited)) {
    // As torchrun does; otherwise each worker would start a thread per core.
    variables.emplace("OMP_NUM_THREADS", "1");
  }
  return variables;
}

Variables paddle_variables(
    const WorkerIdentity& worker,
    const NodeAssignment& assignment,
    const std::string& log_dir) {
  Variables variables = {
      {"PADDLE_MASTER", assignment.master.text()},
      {"PADDLE_GLOBAL_SIZE", str(worker.size)},
      {"PADDLE_LOCAL_SIZE", str(worker.local_size)},
      {"PADDLE_GLOBAL_RANK", str(worker.rank)},
      {"PADDLE_LOCAL_RANK", str(worker.local_rank)},
      {"PADDLE_NNODES", str(assignment.num_nodes())},
      {"PADDLE_TRAINER_ID", str(worker.rank)},
      {"PADDLE_TRAINERS_NUM", str(worker.size)},
      {"PADDLE_RANK_IN_NODE", str(worker.local_rank)},
      {"PADDLE_DISTRI_BACKEND", "gloo"},
      {"PADDLE_LOG_DIR", log_dir},
      {"POD_NAME", str(assignment.run_id, "-", assignment.node_rank)},
  };
  // Empty if the ports of other nodes are unknown (StaticMembership).
  const auto endpoints = assignment.worker_endpoints();
  if (endpoints.empty()) {
    return variables;
  }
  variables["PADDLE_CURRENT_ENDPOINT"] = endpoints[worker.rank];
  const std::string all = join(endpoints, ",");
  if (all.size() < kMostEndpointsText) {
    variables["PADDLE_TRAINER_ENDPOINTS"] = all;
  }
  return variables;
}

} // namespace argosy::launch
