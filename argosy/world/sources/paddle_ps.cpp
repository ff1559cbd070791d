// Paddle's parameter-server launcher: trainers, servers, heterogeneous trainers
// and coordinators, each counted within its role.

#include "argosy/common/error.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

constexpr char kServers[] = "PADDLE_PSERVERS_IP_PORT_LIST";
constexpr char kHeters[] = "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST";
constexpr char kCoordinators[] = "PADDLE_COORDINATOR_ENDPOINTS";

void set_trainer(LaunchInfo& info, const Environment& env) {
  set_rank(info, env, "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM");
  if (env.has("POD_IP") && env.has("PADDLE_PORT")) {
    info.current_endpoint = pod_endpoint(env);
  }
}

// The rank is the index of the process's own endpoint in a list.
void set_listed(
    LaunchInfo& info,
    const Environment& env,
    Role role,
    const char* list_name) {
  const std::vector<Endpoint> list = endpoints(env, list_name);
  info.role = role;
  info.current_endpoint = pod_endpoint(env);
  info.rank =
      index_of(*info.current_endpoint, "POD_IP:PADDLE_PORT", list, list_name);
  info.size = static_cast<int>(list.size());
}

void set_coordinator(LaunchInfo& info, const Environment& env) {
  const std::vector<Endpoint> list = endpoints(env, kCoordinators);
  info.role = Role::Coordinator;
  info.size = static_cast<int>(list.size());
  info.rank = find_int(env, "PADDLE_TRAINER_ID", 0, info.size - 1).value_or(0);
  info.current_endpoint = list[info.rank];
}

void set_paddle_role(LaunchInfo& info, const Environment& env) {
  const std::string role = required(env, "TRAINING_ROLE");
  if (role == "TRAINER") {
    set_trainer(info, env);
  } else if (role == "PSERVER") {
    set_listed(info, env, Role::Server, kServers);
  } else if (role == "HETER_TRAINER") {
    set_listed(info, env, Role::HeterWorker, kHeters);
  } else if (role == "COORDINATOR") {
    set_coordinator(info, env);
  } else {
    throw InvalidArgument(str_format(
        "[world.adopt] TRAINING_ROLE={} is not one of TRAINER, PSERVER, "
        "HETER_TRAINER, COORDINATOR",
        role));
  }
}

// Server addresses are in their list; a store is needed only for other
// exchanges between the roles. Server 0 serves it, as in Paddle.
void set_rendezvous(LaunchInfo& info, const Environment& env) {
  std::optional<Endpoint> natural;
  if (const auto text = env.find("PADDLE_GLOO_HTTP_ENDPOINT")) {
    natural = parse_endpoint(*text, "[world.adopt] PADDLE_GLOO_HTTP_ENDPOINT");
  }
  set_store(info, env, natural);
  info.serves_store = info.serves_store && info.role == Role::Server;
}

Claim read_paddle_ps(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  info.server_endpoints = endpoints(env, kServers);
  set_paddle_role(info, env);
  info.num_workers = required_int(env, "PADDLE_TRAINERS_NUM", 1);
  info.num_servers = static_cast<int>(info.server_endpoints.size());
  if (env.has("PADDLE_TRAINER_ENDPOINTS")) {
    info.worker_endpoints = endpoints(env, "PADDLE_TRAINER_ENDPOINTS");
  }
  info.run_id = env.get("SYS_JOB_ID", env.get("PADDLE_JOB_ID", ""));
  set_local_unknown(info);
  set_rendezvous(info, env);
  return {info, {}};
}

} // namespace

Source paddle_ps_source() {
  return {
      .name = "paddle-ps",
      .marks = {kServers},
      .needs = {kServers, "TRAINING_ROLE", "PADDLE_TRAINERS_NUM"},
      .read = read_paddle_ps};
}

} // namespace argosy::world
