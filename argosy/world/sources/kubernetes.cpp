// Pods that number themselves: LeaderWorkerSet, Volcano, and indexed Jobs.

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

// A pod counts as a host with one rank.
void set_pod(LaunchInfo& info) {
  info.num_nodes = info.size;
  info.node_rank = info.rank;
}

Claim read_leader_worker_set(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  set_rank(info, env, "LWS_WORKER_INDEX", "LWS_GROUP_SIZE");
  set_pod(info);
  set_store(
      info, env, Endpoint{required(env, "LWS_LEADER_ADDRESS"), kDefaultPort});
  return {info, {}};
}

Claim read_indexed_job(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  set_rank(info, env, "JOB_COMPLETION_INDEX", "WORLD_SIZE");
  set_pod(info);
  set_store(info, env);
  check_store(info, "MASTER_ADDR");
  return {info, {}};
}

// Every pod of an indexed Job has JOB_COMPLETION_INDEX, also under systems that
// build on such Jobs and provide more.
std::string disown_indexed_job(const Environment& env) {
  if (env.has("PET_NNODES") || env.has("PET_NODE_RANK")) {
    return "the Job belongs to a larger one, see pet";
  }
  return "";
}

struct VolcanoTask {
  std::string name; // as in VC_<name>_HOSTS
  std::vector<std::string> hosts;
};

std::vector<VolcanoTask> volcano_tasks(const Environment& env) {
  std::vector<VolcanoTask> tasks;
  for (const auto& [name, value] : env.variables()) {
    if (name.starts_with("VC_") && name.ends_with("_HOSTS") &&
        name.size() > 9 && !value.empty()) {
      tasks.push_back({name.substr(3, name.size() - 9), split(value, ',')});
    }
  }
  // Rank 0 is in the task named master.
  std::stable_partition(
      tasks.begin(), tasks.end(), [](const VolcanoTask& task) {
        return task.name == "MASTER";
      });
  return tasks;
}

void check_count(const VolcanoTask& task, const Environment& env) {
  const std::string name = str("VC_", task.name, "_NUM");
  const auto count = find_int(env, name, 1);
  ARGOSY_CHECK(
      !count || *count == static_cast<int>(task.hosts.size()),
      "[world.adopt] {} but VC_{}_HOSTS lists {}",
      shown(env, {name}),
      task.name,
      task.hosts.size());
}

// Pods do not know the name of their task; their host name is in its list.
bool is_own_task(
    const VolcanoTask& task,
    std::size_t index,
    const std::vector<VolcanoTask>& tasks,
    const Environment& env) {
  if (tasks.size() == 1) {
    return true;
  }
  const std::string own = env.get("HOSTNAME", "");
  return index < task.hosts.size() && !own.empty() &&
      (task.hosts[index] == own || task.hosts[index].starts_with(own + "."));
}

// The tasks of a job form one world, in order.
void set_volcano_rank(
    LaunchInfo& info,
    const std::vector<VolcanoTask>& tasks,
    const char* index_name,
    const Environment& env) {
  const int index = required_int(env, index_name, 0);
  info.size = 0;
  info.rank = -1;
  for (const VolcanoTask& task : tasks) {
    check_count(task, env);
    if (is_own_task(task, index, tasks, env)) {
      info.rank = info.size + index;
    }
    info.size += static_cast<int>(task.hosts.size());
  }
  info.num_workers = info.size;
  ARGOSY_CHECK(
      info.rank >= 0 && info.rank < info.size,
      "[world.adopt] {} is not in the lists of VC_<TASK>_HOSTS, which name {} "
      "hosts",
      shown(env, {index_name, "HOSTNAME"}),
      info.size);
}

Claim read_volcano(const Context& context) {
  const Environment& env = context.env;
  const char* index_name =
      env.has("VC_TASK_INDEX") ? "VC_TASK_INDEX" : "VK_TASK_INDEX";
  const std::vector<VolcanoTask> tasks = volcano_tasks(env);
  ARGOSY_CHECK(
      !tasks.empty(),
      "[world.adopt] {} needs a VC_<TASK>_HOSTS, which Volcano's svc plugin "
      "sets",
      shown(env, {index_name}));
  LaunchInfo info;
  set_volcano_rank(info, tasks, index_name, env);
  set_pod(info);
  set_store(info, env, Endpoint{tasks.front().hosts.front(), kDefaultPort});
  return {info, {}};
}

} // namespace

Source leader_worker_set_source() {
  const std::vector<std::string> names = {
      "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS"};
  return {
      .name = "leader-worker-set",
      .level = Level::Scheduler,
      .marks = names,
      .needs = names,
      .read = read_leader_worker_set};
}

Source volcano_source() {
  return {
      .name = "volcano",
      .level = Level::Scheduler,
      .marks = {"VC_TASK_INDEX", "VK_TASK_INDEX"},
      .needs = {"VC_TASK_INDEX|VK_TASK_INDEX"},
      .read = read_volcano};
}

Source indexed_job_source() {
  return {
      .name = "kubernetes",
      .level = Level::Scheduler,
      .marks = {"JOB_COMPLETION_INDEX"},
      .needs = {"JOB_COMPLETION_INDEX", "WORLD_SIZE"},
      .read = read_indexed_job,
      .disowned = disown_indexed_job};
}

} // namespace argosy::world
