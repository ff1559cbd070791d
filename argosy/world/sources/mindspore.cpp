// MindSpore's dynamic cluster: a scheduler process serves the store and may
// assign the ranks.

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

// A numeric MS_NODE_ID is the rank; RANK_ID comes next.
void set_own_rank(LaunchInfo& info, const Environment& env) {
  const std::string node_id = env.get("MS_NODE_ID", "");
  const bool numeric = parse_int(node_id).has_value();
  info.node_id = node_id;
  const char* name = numeric ? "MS_NODE_ID" : "RANK_ID";
  info.rank_by_arrival = !env.has(name);
  info.rank =
      info.rank_by_arrival ? -1 : required_int(env, name, 0, info.size - 1);
}

void set_counts(LaunchInfo& info, const Environment& env) {
  info.num_workers = required_int(env, "MS_WORKER_NUM", 1);
  info.num_servers = find_int(env, "MS_SERVER_NUM", 0).value_or(0);
  const auto size = find_int(env, "RANK_SIZE", 1);
  ARGOSY_CHECK(
      !size || *size == info.num_workers,
      "[world.adopt] RANK_SIZE={} but MS_WORKER_NUM={}",
      size.value_or(0),
      info.num_workers);
}

void set_mindspore_role(LaunchInfo& info, const Environment& env) {
  const std::string role = required(env, "MS_ROLE");
  if (role == "MS_SCHED") {
    info.role = Role::Scheduler;
  } else if (role == "MS_WORKER") {
    info.size = info.num_workers;
    set_own_rank(info, env);
  } else if (role == "MS_PSERVER" || role == "MS_SERVER") {
    info.role = Role::Server;
    info.size = required_int(env, "MS_SERVER_NUM", 1);
    set_own_rank(info, env);
  } else {
    throw InvalidArgument(str_format(
        "[world.adopt] MS_ROLE={} is not one of MS_SCHED, MS_WORKER, "
        "MS_PSERVER, MS_SERVER",
        role));
  }
}

// The scheduler waits even for a single worker, so there is always a store.
void set_scheduler(LaunchInfo& info, const Environment& env) {
  const int port = required_int(env, "MS_SCHED_PORT", 1024, 65535);
  const Endpoint place{
      required(env, "MS_SCHED_HOST"), static_cast<std::uint16_t>(port)};
  info.store_url = env.get("ARGOSY_STORE", str("tcp://", place.text()));
  info.serves_store =
      info.role == Role::Scheduler && info.store_url.starts_with("tcp://");
}

Claim read_mindspore(const Context& context) {
  LaunchInfo info;
  // First: a worker's size is the number of workers.
  set_counts(info, context.env);
  set_mindspore_role(info, context.env);
  set_local_unknown(info);
  set_scheduler(info, context.env);
  return {info, {}};
}

} // namespace

Source mindspore_source() {
  return {
      .name = "mindspore",
      .marks = {"MS_ROLE"},
      .needs = {"MS_ROLE", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_WORKER_NUM"},
      .read = read_mindspore};
}

} // namespace argosy::world
