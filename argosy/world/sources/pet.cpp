// PET_*: the variables that Kubeflow sets in the pods of a PyTorchJob or
// TrainJob, for an agent that turns pods into ranks. If each pod has one
// process, a program without an agent is a rank itself.

#include "argosy/common/error.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

constexpr char kUseRun[] =
    ": start the program through `argosy run`, which reads PET_* itself";

void check_bare_program(const Environment& env) {
  const std::string processes = env.get("PET_NPROC_PER_NODE", "1");
  ARGOSY_CHECK(
      processes == "1",
      "[world.adopt] PET_NPROC_PER_NODE={} asks for several ranks per pod{}",
      processes,
      kUseRun);
  const std::string nodes = env.get("PET_NNODES", "1");
  ARGOSY_CHECK(
      nodes.find(':') == std::string::npos,
      "[world.adopt] PET_NNODES={} is a range of pods, which only an agent can "
      "follow{}",
      nodes,
      kUseRun);
}

std::optional<Endpoint> pet_master(const Environment& env) {
  if (const auto host = env.find("PET_MASTER_ADDR")) {
    const int port = find_port(env, "PET_MASTER_PORT").value_or(kDefaultPort);
    return Endpoint{*host, static_cast<std::uint16_t>(port)};
  }
  if (const auto text = env.find("PET_RDZV_ENDPOINT")) {
    return parse_endpoint(
        *text, "[world.adopt] PET_RDZV_ENDPOINT", kDefaultPort);
  }
  return std::nullopt;
}

Claim read_pet(const Context& context) {
  check_bare_program(context.env);
  Environment env = context.env;
  if (env.get("PET_NNODES", "") == "1" && !env.has("PET_NODE_RANK")) {
    env.set("PET_NODE_RANK", "0");
  }
  LaunchInfo info;
  set_rank(info, env, "PET_NODE_RANK", "PET_NNODES");
  info.num_nodes = info.size;
  info.node_rank = info.rank;
  info.run_id = env.get("PET_RDZV_ID", "");
  // PET_MASTER_* is newer than MASTER_*; a pod may have both.
  const auto master = pet_master(env);
  if (master) {
    env.unset("MASTER_ADDR");
    env.unset("MASTER_PORT");
  }
  set_store(info, env, master);
  check_store(info, "PET_MASTER_ADDR and PET_MASTER_PORT");
  return {info, {}};
}

} // namespace

Source pet_source() {
  return {
      .name = "pet",
      .level = Level::Scheduler,
      .marks = {"PET_NNODES", "PET_NODE_RANK"},
      .needs = {"PET_NNODES"},
      .read = read_pet};
}

} // namespace argosy::world
