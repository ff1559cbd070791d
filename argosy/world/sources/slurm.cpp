// Tasks that srun started.

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/sources/slurm_nodelist.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

// Step ids from here on are Slurm's own: batch script, interactive shell,
// extern.
constexpr long long kFirstSpecialStep = 0xfffffff0;

// Returns the first variable that is set; Slurm versions spell them
// differently.
std::string first_set(
    const Environment& env, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (env.has(name)) {
      return name;
    }
  }
  return names.front();
}

// All tasks of a step compute the same port without communication. Steps of one
// job, and jobs on one host, rarely get the same.
std::uint16_t step_port(const Environment& env) {
  const long long job = required_int(env, "SLURM_JOB_ID", 0);
  const long long step = find_int(env, "SLURM_STEP_ID", 0).value_or(0);
  return job_port(job * 31 + step);
}

void set_node(LaunchInfo& info, const Environment& env) {
  const std::string nodes =
      first_set(env, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
  const auto num_nodes = find_int(env, nodes, 1);
  const auto node = find_int(env, "SLURM_NODEID", 0);
  const auto local = find_int(env, "SLURM_LOCALID", 0);
  info.local_rank = local.value_or(0);
  info.knows_local = num_nodes && node && local;
  if (!info.knows_local) {
    set_local_unknown(info);
    return;
  }
  ARGOSY_CHECK(
      *node < *num_nodes,
      "[world.adopt] SLURM_NODEID={} is not below {}={}",
      *node,
      nodes,
      *num_nodes);
  info.num_nodes = *num_nodes;
  info.node_rank = *node;
}

void set_local_size(LaunchInfo& info, const Environment& env) {
  const std::string name =
      first_set(env, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  const auto text = env.find(name);
  info.local_size = info.num_nodes == 1 ? info.size : info.local_rank + 1;
  if (!text || !info.knows_local) {
    info.knows_local = info.num_nodes == 1;
    return;
  }
  const auto tasks = expand_tasks_per_node(*text, str("[world.adopt] ", name));
  const auto node = static_cast<std::size_t>(info.node_rank);
  ARGOSY_CHECK(
      node < tasks.size() && info.local_rank < tasks[node],
      "[world.adopt] {} has no place in {}={}",
      shown(env, {"SLURM_NODEID", "SLURM_LOCALID"}),
      name,
      *text);
  info.local_size = tasks[node];
}

Endpoint first_host(const LaunchInfo& info, const Environment& env) {
  const std::uint16_t port = step_port(env);
  const std::string name = first_set(
      env, {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"});
  if (info.num_nodes == 1 && info.knows_local) {
    return {"127.0.0.1", port};
  }
  const auto hosts =
      expand_nodelist(required(env, name), str("[world.adopt] ", name));
  return {hosts.front(), port};
}

// srun passes SLURM_PTY_PORT on to steps started from its shell, so the
// variables cannot distinguish the two. Neither can the job name: it is
// "interactive" for all steps of a salloc, and "bash" for `srun bash train.sh`.
void check_not_a_shell(const LaunchInfo& info, const Environment& env) {
  ARGOSY_CHECK(
      info.size == 1 || !env.has("SLURM_PTY_PORT") ||
          env.get("ARGOSY_ADOPT", "") == "slurm",
      "[world.adopt] {}: the shell of `srun --pty`, or a step started from it? "
      "Set ARGOSY_ADOPT=single or ARGOSY_ADOPT=slurm",
      shown(env, {"SLURM_PTY_PORT", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}));
}

Claim read_slurm(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  set_rank(
      info,
      env,
      "SLURM_PROCID",
      first_set(env, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}));
  check_not_a_shell(info, env);
  set_node(info, env);
  set_local_size(info, env);
  const bool placed = env.has("ARGOSY_STORE") || env.has("MASTER_ADDR");
  set_store(
      info, env, placed ? std::nullopt : std::optional(first_host(info, env)));
  info.run_id = str_format(
      "slurm-{}.{}",
      required(env, "SLURM_JOB_ID"),
      env.get("SLURM_STEP_ID", ""));
  info.restart_count = find_int(env, "SLURM_RESTART_COUNT", 0).value_or(0);
  return {info, {}};
}

std::string disown_slurm(const Environment& env) {
  const auto step = env.find("SLURM_STEP_ID");
  if (!step) {
    return "in a job, but not started by srun: SLURM_STEP_ID is not set";
  }
  if (parse_int(*step).value_or(0) >= kFirstSpecialStep) {
    return str("SLURM_STEP_ID=", *step, " is the batch script's or a shell's");
  }
  return "";
}

} // namespace

Source slurm_source() {
  return {
      .name = "slurm",
      .level = Level::Scheduler,
      .marks = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
      .needs =
          {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS|SLURM_NTASKS", "SLURM_JOB_ID"},
      .read = read_slurm,
      .disowned = disown_slurm};
}

} // namespace argosy::world
