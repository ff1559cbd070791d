#pragma once

#include <string>
#include <vector>

#include "argosy/world/launch_info.h"

namespace argosy {
class Environment;
}

namespace argosy::fleet {

// This process's role in a job of workers and perhaps servers. A plain value:
// constructing it contacts nobody.
class JobRole {
 public:
  JobRole(bool is_collective, LaunchInfo info)
      : is_collective_(is_collective), info_(std::move(info)) {}

  bool is_collective() const { return is_collective_; }
  const LaunchInfo& info() const { return info_; }

  Role role() const { return info_.role; }
  bool is_worker() const { return info_.role == Role::Worker; }
  bool is_server() const { return info_.role == Role::Server; }
  bool is_first_worker() const { return is_worker() && info_.rank == 0; }

  // The index within the role, whichever that is.
  int role_id() const { return info_.rank; }

  // -1 for a process of another role.
  int worker_index() const { return is_worker() ? info_.rank : -1; }
  int server_index() const { return is_server() ? info_.rank : -1; }
  int worker_num() const { return info_.num_workers; }
  int server_num() const { return info_.num_servers; }

  // "host:port" each; none when the launcher named none.
  std::vector<std::string> worker_endpoints() const;
  std::vector<std::string> server_endpoints() const;

  // Hosts that run processes of this role.
  int node_num() const { return info_.num_nodes; }
  int local_rank() const { return info_.local_rank; }

 private:
  bool is_collective_;
  LaunchInfo info_;
};

// The role that the launcher of this thread or process gives, whichever
// launcher that is (docs/launch-environments.md), or spawn().
//
// Collective: workers only. Otherwise a job of workers and servers, which
// PADDLE_PSERVERS_IP_PORT_LIST names; without that variable a single worker.
// Throws InvalidArgument when the environment is invalid or of the other kind.
JobRole adopt_role(bool is_collective);
JobRole adopt_role(bool is_collective, const Environment& environment);

} // namespace argosy::fleet
