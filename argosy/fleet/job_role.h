#pragma once

#include <string>
#include <vector>

#include "argosy/world/launch_info.h"

namespace argosy {
class Environment;
}

namespace argosy::fleet {

// What this process is in a job of workers and, possibly, servers: role, index,
// numbers, endpoints. A value; constructing one communicates with nobody.
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

  // The index within this process's role.
  int role_id() const { return info_.rank; }

  // -1 if this process has the other role.
  int worker_index() const { return is_worker() ? info_.rank : -1; }
  int server_index() const { return is_server() ? info_.rank : -1; }
  int worker_num() const { return info_.num_workers; }
  int server_num() const { return info_.num_servers; }

  // "host:port" each; empty if the launcher did not provide them.
  std::vector<std::string> worker_endpoints() const;
  std::vector<std::string> server_endpoints() const;

  // The number of hosts that run processes of this role.
  int node_num() const { return info_.num_nodes; }
  int local_rank() const { return info_.local_rank; }

 private:
  bool is_collective_;
  LaunchInfo info_;
};

// Reads the role from the environment of whatever launcher started this process
// (Paddle's, or any other in docs/launch-environments.md), or from spawn().
//
// If `is_collective`, the job has workers only. Otherwise it has the servers
// that PADDLE_PSERVERS_IP_PORT_LIST lists or, without that variable, is a
// single worker. Throws InvalidArgument when the environment is invalid or
// describes the other kind of job.
JobRole adopt_role(bool is_collective);
JobRole adopt_role(bool is_collective, const Environment& environment);

} // namespace argosy::fleet
