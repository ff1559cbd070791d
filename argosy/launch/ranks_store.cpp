#include "argosy/launch/ranks_store.h"

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/store/credentials.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/socket.h"

namespace argosy::launch {

namespace {

constexpr std::chrono::seconds kResolveLimit(10);

} // namespace

bool launcher_serves_ranks(
    const RunOptions& options, const Environment& environment) {
  return options.restart_policy == RestartPolicy::Worker &&
      !environment.has("ARGOSY_STORE");
}

std::string ranks_store_url(const NodeAssignment& assignment) {
  return str("tcp://", assignment.master.text(), "?serve=no");
}

std::unique_ptr<store::KvServer> serve_ranks(
    const NodeAssignment& assignment, const Environment& environment) {
  if (assignment.node_rank != 0) {
    return nullptr;
  }
  const Endpoint& place = assignment.master;
  const std::string host =
      store::listen_host(place.host, Deadline::after(kResolveLimit));
  return std::make_unique<store::KvServer>(
      Endpoint{host, place.port},
      store::ServerOptions{.credentials = store::credentials_of(environment)});
}

} // namespace argosy::launch
