// Paddle's collective launcher.

#include "argosy/common/error.h"
#include "argosy/world/sources/json_at.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

constexpr char kEndpoints[] = "PADDLE_TRAINER_ENDPOINTS";
constexpr char kBackup[] = "PADDLE_BACKUP_ENV_PATH";

// Lists too long for the environment are in a file of variables.
void add_backup_env(Environment& env) {
  const auto path = env.find(kBackup);
  if (!path || env.has(kEndpoints)) {
    return;
  }
  const nlohmann::json backup = read_json_file(*path, kBackup);
  ARGOSY_CHECK(
      backup.is_object(),
      "[world.adopt] {}={}: not an object of variables",
      kBackup,
      *path);
  const auto found = backup.find(kEndpoints);
  if (found == backup.end()) {
    return;
  }
  ARGOSY_CHECK(
      found->is_string(),
      "[world.adopt] {}={}: /{} is {}, not a string",
      kBackup,
      *path,
      kEndpoints,
      found->dump());
  env.set(kEndpoints, found->get<std::string>());
}

void check_role(const Environment& env) {
  for (const char* name : {"TRAINING_ROLE", "PADDLE_TRAINING_ROLE"}) {
    ARGOSY_CHECK(
        env.get(name, "TRAINER") == "TRAINER",
        "[world.adopt] {} without PADDLE_PSERVERS_IP_PORT_LIST: a collective "
        "job has only TRAINER",
        shown(env, {name}));
  }
}

void set_endpoints(LaunchInfo& info, const Environment& env) {
  if (!env.has(kEndpoints)) {
    return;
  }
  info.worker_endpoints = endpoints(env, kEndpoints);
  ARGOSY_CHECK(
      static_cast<int>(info.worker_endpoints.size()) == info.size,
      "[world.adopt] PADDLE_TRAINERS_NUM={} but {} lists {}",
      info.size,
      kEndpoints,
      info.worker_endpoints.size());
  info.current_endpoint = info.worker_endpoints[info.rank];
}

void set_current_endpoint(LaunchInfo& info, const Environment& env) {
  constexpr char kCurrent[] = "PADDLE_CURRENT_ENDPOINT";
  const auto text = env.find(kCurrent);
  if (!text) {
    return;
  }
  info.current_endpoint =
      parse_endpoint(*text, str("[world.adopt] ", kCurrent));
  if (info.worker_endpoints.empty()) {
    return;
  }
  const int index = index_of(
      *info.current_endpoint, kCurrent, info.worker_endpoints, kEndpoints);
  ARGOSY_CHECK(
      index == info.rank,
      "[world.adopt] {}={} is entry {} of {} but PADDLE_TRAINER_ID={}",
      kCurrent,
      *text,
      index,
      kEndpoints,
      info.rank);
}

// The launcher's variables take precedence over what endpoints suggest.
void set_place_on_host(LaunchInfo& info, const Environment& env) {
  const char* rank_name = env.has("PADDLE_RANK_IN_NODE") ? "PADDLE_RANK_IN_NODE"
                                                         : "PADDLE_LOCAL_RANK";
  const bool told = env.has(rank_name) && env.has("PADDLE_LOCAL_SIZE");
  if (told || info.worker_endpoints.empty()) {
    set_local(info, env, rank_name, "PADDLE_LOCAL_SIZE");
    return;
  }
  set_local_from(info, info.worker_endpoints);
  info.local_rank = find_int(env, rank_name, 0, info.local_size - 1)
                        .value_or(info.local_rank);
}

std::optional<Endpoint> paddle_store(
    const LaunchInfo& info, const Environment& env) {
  if (const auto master = env.find("PADDLE_MASTER")) {
    return parse_endpoint(*master, "[world.adopt] PADDLE_MASTER");
  }
  return info.worker_endpoints.empty()
      ? std::nullopt
      : std::optional(info.worker_endpoints.front());
}

Claim read_paddle(const Context& context) {
  Environment env = context.env;
  if (env.get("PADDLE_TRAINERS_NUM", "") == "1" &&
      !env.has("PADDLE_TRAINER_ID")) {
    env.set("PADDLE_TRAINER_ID", "0");
  }
  check_role(env);
  LaunchInfo info;
  set_rank(info, env, "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM");
  // Before set_endpoints(), which reads what it adds.
  add_backup_env(env);
  set_endpoints(info, env);
  set_current_endpoint(info, env);
  set_place_on_host(info, env);
  info.run_id = env.get("PADDLE_JOB_ID", "");
  set_store(info, env, paddle_store(info, env));
  check_store(info, "MASTER_ADDR, PADDLE_MASTER, PADDLE_TRAINER_ENDPOINTS");
  return {info, {}};
}

// The parameter server and Fluid's trainer use some of the same names.
std::string disown_paddle(const Environment& env) {
  if (env.has("PADDLE_PSERVERS_IP_PORT_LIST")) {
    return "with PADDLE_PSERVERS_IP_PORT_LIST set, see paddle-ps";
  }
  if (env.has("PADDLE_PSERVER_IPS") || env.has("PADDLE_TRAINER_IPS")) {
    return "with PADDLE_PSERVER_IPS or PADDLE_TRAINER_IPS set, see fluid";
  }
  return "";
}

} // namespace

Source paddle_source() {
  return {
      .name = "paddle",
      .marks = {"PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"},
      .needs = {"PADDLE_TRAINERS_NUM"},
      .read = read_paddle,
      .disowned = disown_paddle};
}

} // namespace argosy::world
