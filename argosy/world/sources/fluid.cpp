// The variables of Paddle's old trainer API (Fluid): parameter server, and the
// mode it called NCCL2, in which trainers talk to each other.

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

// Combines every address of the list with the one port.
std::vector<Endpoint> with_port(const Environment& env, const char* ips_name) {
  const int port = required_int(env, "PADDLE_PSERVER_PORT", 1, 65535);
  std::vector<Endpoint> list;
  for (const std::string& ip : split(required(env, ips_name), ',')) {
    const std::string host(trim(ip));
    ARGOSY_CHECK(
        !host.empty(),
        "[world.adopt] {} has an empty address",
        shown(env, {ips_name}));
    list.push_back({host, static_cast<std::uint16_t>(port)});
  }
  return list;
}

Endpoint current_endpoint(const Environment& env) {
  const int port = required_int(env, "PADDLE_PSERVER_PORT", 1, 65535);
  return {required(env, "PADDLE_CURRENT_IP"), static_cast<std::uint16_t>(port)};
}

LaunchInfo read_servers_mode(const Environment& env) {
  LaunchInfo info;
  info.server_endpoints = with_port(env, "PADDLE_PSERVER_IPS");
  const std::string role = required(env, "PADDLE_TRAINING_ROLE");
  ARGOSY_CHECK(
      role == "PSERVER" || role == "TRAINER",
      "[world.adopt] PADDLE_TRAINING_ROLE={} is not one of PSERVER, TRAINER",
      role);
  const int num_servers = static_cast<int>(info.server_endpoints.size());
  if (role == "PSERVER") {
    info.role = Role::Server;
    info.current_endpoint = current_endpoint(env);
    info.rank = index_of(
        *info.current_endpoint,
        "PADDLE_CURRENT_IP:PADDLE_PSERVER_PORT",
        info.server_endpoints,
        "PADDLE_PSERVER_IPS");
    info.size = num_servers;
  } else {
    set_rank(info, env, "PADDLE_TRAINER_ID", "PADDLE_TRAINERS");
  }
  info.num_servers = num_servers;
  info.num_workers = required_int(env, "PADDLE_TRAINERS", 1);
  set_local_unknown(info);
  set_store(info, env);
  info.serves_store = info.serves_store && info.role == Role::Server;
  return info;
}

LaunchInfo read_trainers_mode(const Environment& env) {
  LaunchInfo info;
  info.worker_endpoints = with_port(env, "PADDLE_TRAINER_IPS");
  info.size = static_cast<int>(info.worker_endpoints.size());
  info.num_workers = info.size;
  info.rank = required_int(env, "PADDLE_TRAINER_ID", 0, info.size - 1);
  const Endpoint& listed = info.worker_endpoints[info.rank];
  if (env.has("PADDLE_CURRENT_IP")) {
    ARGOSY_CHECK(
        current_endpoint(env) == listed,
        "[world.adopt] {} but entry {} (PADDLE_TRAINER_ID) of "
        "PADDLE_TRAINER_IPS is {}",
        shown(env, {"PADDLE_CURRENT_IP"}),
        info.rank,
        listed.host);
  }
  info.current_endpoint = listed;
  set_local_from(info, info.worker_endpoints);
  set_store(info, env, info.worker_endpoints.front());
  return info;
}

Claim read_fluid(const Context& context) {
  const bool trainers_only = context.env.has("PADDLE_TRAINER_IPS") &&
      !context.env.has("PADDLE_PSERVER_IPS");
  return {
      trainers_only ? read_trainers_mode(context.env)
                    : read_servers_mode(context.env),
      {}};
}

std::string disown_fluid(const Environment& env) {
  const bool local =
      env.has("PADDLE_PSERVER_IPS") && !env.has("PADDLE_TRAINING_ROLE");
  return local ? "PADDLE_TRAINING_ROLE is not set: local training" : "";
}

} // namespace

Source fluid_source() {
  return {
      .name = "fluid",
      .marks = {"PADDLE_PSERVER_IPS", "PADDLE_TRAINER_IPS"},
      .needs = {"PADDLE_PSERVER_IPS|PADDLE_TRAINER_IPS", "PADDLE_PSERVER_PORT"},
      .read = read_fluid,
      .disowned = disown_fluid};
}

} // namespace argosy::world
