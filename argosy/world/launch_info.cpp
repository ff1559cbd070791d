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

std::string to_string(Exchange exchange) {
  switch (exchange) {
    case Exchange::None:
      return "none";
    case Exchange::LocalFile:
      return "file";
    case Exchange::Pmi:
      return "pmi";
    case Exchange::Pmix:
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
  if (info.exchange != Exchange::None) {
    out << ", learns the address by " << to_string(info.exchange);
  }
  if (!info.store_url.empty()) {
    out << ", meets at " << info.store_url
        << (info.serves_store ? " (serves it)" : "");
  }
  return out;
}

} // namespace argosy
