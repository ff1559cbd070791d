// torchrun and compatible launchers, including `argosy run`; and the same
// variables set by hand or by other launchers.

#include "argosy/common/error.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

void set_group(LaunchInfo& info, const Environment& env) {
  const auto nodes = find_int(env, "GROUP_WORLD_SIZE", 1);
  const auto node = find_int(env, "GROUP_RANK", 0);
  if (!nodes || !node) {
    return;
  }
  ARGOSY_CHECK(
      *node < *nodes,
      "[world.adopt] GROUP_RANK={} is not below GROUP_WORLD_SIZE={}",
      *node,
      *nodes);
  info.num_nodes = *nodes;
  info.node_rank = *node;
  info.knows_local = env.has("LOCAL_RANK") && env.has("LOCAL_WORLD_SIZE");
}

Claim read_env(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  set_rank(info, env, "RANK", "WORLD_SIZE");
  set_local(info, env, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  // After set_local(), which only infers the node from the local rank.
  set_group(info, env);
  set_store(info, env);
  check_store(info, "MASTER_ADDR and MASTER_PORT");
  return {info, {}};
}

Claim read_torchrun(const Context& context) {
  Claim claim = read_env(context);
  const Environment& env = context.env;
  claim.info.run_id = required(env, "TORCHELASTIC_RUN_ID");
  claim.info.restart_count =
      find_int(env, "TORCHELASTIC_RESTART_COUNT", 0).value_or(0);
  // The agent's store outlives its workers, so all attempts use it.
  const bool agent_serves =
      env.find_bool("TORCHELASTIC_USE_AGENT_STORE").value_or(false);
  if (agent_serves && !env.has("ARGOSY_STORE")) {
    claim.info.serves_store = false;
    // It is torch's, and speaks torch's protocol.
    std::string& url = claim.info.store_url;
    url = url.starts_with("tcp://") ? "c10d" + url.substr(3) : url;
  }
  return claim;
}

// Kubeflow's PyTorchJob sets RANK to the index of the pod; PET_*, which it also
// sets, is authoritative.
std::string disown_env(const Environment& env) {
  if (env.has("TORCHELASTIC_RUN_ID")) {
    return "set by the agent, see torchrun";
  }
  if (env.has("PET_NNODES") || env.has("PET_NODE_RANK")) {
    return "RANK counts pods here, see pet";
  }
  if (env.has("JOB_COMPLETION_INDEX") && !env.has("RANK")) {
    return "WORLD_SIZE goes with JOB_COMPLETION_INDEX, see kubernetes";
  }
  return "";
}

} // namespace

Source torchrun_source() {
  return {
      .name = "torchrun",
      .level = Level::Agent,
      .marks = {"TORCHELASTIC_RUN_ID"},
      .needs = {"TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"},
      .read = read_torchrun};
}

Source env_source() {
  return {
      .name = "env",
      .level = Level::Launcher,
      .marks = {"RANK", "WORLD_SIZE"},
      .needs = {"RANK", "WORLD_SIZE"},
      .read = read_env,
      .disowned = disown_env};
}

} // namespace argosy::world
