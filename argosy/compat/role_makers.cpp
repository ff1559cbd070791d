#include "argosy/compat/role_makers.h"

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/world/sources/values.h"

namespace argosy::fleet {

namespace {

std::vector<Endpoint> parsed(
    const std::vector<std::string>& endpoints, const char* name) {
  std::vector<Endpoint> result;
  for (const std::string& text : endpoints) {
    result.push_back(parse_endpoint(text, str("[fleet.role_maker] ", name)));
  }
  return result;
}

int worker_num_of(const UserDefinedRole& role) {
  const auto listed = static_cast<int>(role.worker_endpoints.size());
  ARGOSY_CHECK(
      role.worker_num >= 0 && (role.worker_num > 0 || listed > 0),
      "[fleet.role_maker] worker_num {} and no worker_endpoints, expected at "
      "least one worker",
      role.worker_num);
  ARGOSY_CHECK(
      listed == 0 || role.worker_num == 0 || role.worker_num == listed,
      "[fleet.role_maker] worker_num {} but worker_endpoints lists {}",
      role.worker_num,
      listed);
  return role.worker_num > 0 ? role.worker_num : listed;
}

// Sets the endpoint and the local rank, if the role's endpoints are listed.
void set_endpoint(LaunchInfo& info) {
  const std::vector<Endpoint>& own =
      info.role == Role::Server ? info.server_endpoints : info.worker_endpoints;
  if (own.empty()) {
    // Without endpoints nobody knows which ranks share a host.
    info.knows_local = info.size == 1;
    return;
  }
  info.current_endpoint = own[static_cast<std::size_t>(info.rank)];
  world::set_local_from(info, own);
}

LaunchInfo info_of(const UserDefinedRole& role) {
  ARGOSY_CHECK(
      role.role == Role::Worker || role.role == Role::Server,
      "[fleet.role_maker] role {}, expected worker or server",
      to_string(role.role));
  ARGOSY_CHECK(
      !role.is_collective ||
          (role.role == Role::Worker && role.server_endpoints.empty()),
      "[fleet.role_maker] is_collective, but role is {} and server_endpoints "
      "lists {}",
      to_string(role.role),
      role.server_endpoints.size());
  LaunchInfo info;
  info.source = "user-defined";
  info.role = role.role;
  info.worker_endpoints = parsed(role.worker_endpoints, "worker_endpoints");
  info.server_endpoints = parsed(role.server_endpoints, "server_endpoints");
  info.num_workers = worker_num_of(role);
  info.num_servers = static_cast<int>(info.server_endpoints.size());
  info.rank = role.current_id;
  info.size = role.role == Role::Worker ? info.num_workers : info.num_servers;
  ARGOSY_CHECK(
      info.rank >= 0 && info.rank < info.size,
      "[fleet.role_maker] current_id {} of {} of role {}, expected 0 <= "
      "current_id < {}",
      info.rank,
      info.size,
      to_string(info.role),
      info.size);
  set_endpoint(info);
  // The ranks meet at the first worker's endpoint, where it serves the store.
  if (role.is_collective && info.size > 1 && !info.worker_endpoints.empty()) {
    info.store_url = "tcp://" + info.worker_endpoints.front().text();
    info.serves_store = info.rank == 0;
  }
  return info;
}

} // namespace

PaddleCloudRoleMaker::PaddleCloudRoleMaker(bool is_collective)
    : JobRole(adopt_role(is_collective)) {}

PaddleCloudRoleMaker::PaddleCloudRoleMaker(
    bool is_collective, const Environment& environment)
    : JobRole(adopt_role(is_collective, environment)) {}

UserDefinedRoleMaker::UserDefinedRoleMaker(const UserDefinedRole& role)
    : JobRole(role.is_collective, info_of(role)) {}

} // namespace argosy::fleet
