#include "argosy/world/launch_info.h"

#include <ostream>

namespace argosy {

std::string to_string(Role role) {
  switch (role) {
    case Role::Worker:
      return "worker";
    case Role::Server:
      return "server";
    case Role::HeterWorker:
      return "heter worker";
    case Role::Scheduler:
      return "scheduler";
    case Role::Coordinator:
      return "coordinator";
  }
  return "unknown";
}

std::string to_string(AddressExchange exchange) {
  switch (exchange) {
    case AddressExchange::None:
      return "none";
    case AddressExchange::LocalFile:
      return "file";
    case AddressExchange::Pmi:
      return "pmi";
    case AddressExchange::Pmix:
      return "pmix";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, const LaunchInfo& info) {
  out << to_string(info.role) << " "
      << (info.rank_by_arrival ? "?" : std::to_string(info.rank)) << "/"
      << info.size;
  if (info.knows_local) {
    out << ", local " << info.local_rank << "/" << info.local_size << ", node "
        << info.node_rank << "/" << info.num_nodes;
  }
  out << ", from " << info.source;
  if (info.address_exchange != AddressExchange::None) {
    out << ", learns the address by " << to_string(info.address_exchange);
  }
  if (!info.store_url.empty()) {
    out << ", meets at " << info.store_url
        << (info.serves_store ? " (serves it)" : "");
  }
  return out;
}

} // namespace argosy
