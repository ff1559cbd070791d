#include "argosy/fleet/job_role.h"

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/world/adopt.h"
#include "argosy/world/init.h"

namespace argosy::fleet {

namespace {

std::vector<std::string> endpoint_texts(
    const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> result;
  for (const Endpoint& endpoint : endpoints) {
    result.push_back(endpoint.text());
  }
  return result;
}

void check_kind(bool is_collective, const LaunchInfo& info) {
  ARGOSY_CHECK(
      !is_collective || (info.role == Role::Worker && info.num_servers == 0),
      "[fleet.role_maker] is_collective, but this is {} {} of a job with {} "
      "servers, according to {}",
      to_string(info.role),
      info.rank,
      info.num_servers,
      info.source);
  ARGOSY_CHECK(
      is_collective || info.num_servers > 0 || info.size == 1,
      "[fleet.role_maker] {} workers without servers, according to {}: set "
      "is_collective, or PADDLE_PSERVERS_IP_PORT_LIST",
      info.size,
      info.source);
}

// What Paddle says of a worker that nobody launched.
void name_the_only_worker(LaunchInfo& info) {
  if (info.size == 1 && info.num_servers == 0 &&
      info.worker_endpoints.empty()) {
    info.worker_endpoints = {Endpoint{"127.0.0.1", 6170}};
    info.current_endpoint = info.worker_endpoints.front();
  }
}

JobRole checked_role(bool is_collective, LaunchInfo info) {
  check_kind(is_collective, info);
  if (info.role == Role::Worker && info.num_servers == 0) {
    info.num_workers = info.size;
  }
  name_the_only_worker(info);
  return {is_collective, std::move(info)};
}

} // namespace

std::vector<std::string> JobRole::worker_endpoints() const {
  return endpoint_texts(info_.worker_endpoints);
}

std::vector<std::string> JobRole::server_endpoints() const {
  return endpoint_texts(info_.server_endpoints);
}

JobRole adopt_role(bool is_collective) {
  return checked_role(is_collective, launch_info());
}

JobRole adopt_role(bool is_collective, const Environment& environment) {
  return checked_role(is_collective, adopt(environment).info);
}

} // namespace argosy::fleet
