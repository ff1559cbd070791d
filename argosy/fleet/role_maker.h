#pragma once

#include <string>
#include <vector>

#include "argosy/world/launch_info.h"

namespace argosy {
class Environment;
}

namespace argosy::fleet {

// Who this process is in a job of workers, and perhaps servers. A value:
// making it contacts nobody.
class RoleMaker {
 public:
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

 protected:
  RoleMaker(bool is_collective, LaunchInfo info)
      : is_collective_(is_collective), info_(std::move(info)) {}

  bool is_collective_;
  LaunchInfo info_;
};

// From whatever started this thread or process: Paddle's variables, and as well
// those of any other launcher (docs/launch-environments.md), and spawn().
//
// Collective: workers only. Otherwise a job of workers and servers, which
// PADDLE_PSERVERS_IP_PORT_LIST names; without, a single worker. Throws
// InvalidArgument when the environment is wrong or of the other kind.
class PaddleCloudRoleMaker : public RoleMaker {
 public:
  explicit PaddleCloudRoleMaker(bool is_collective = false);
  PaddleCloudRoleMaker(bool is_collective, const Environment& environment);

 private:
  PaddleCloudRoleMaker(bool is_collective, LaunchInfo info);
};

struct UserDefinedRole {
  bool is_collective = false;
  int current_id = 0; // within the role
  Role role = Role::Worker;
  int worker_num = 0; // 0: as many as worker_endpoints
  std::vector<std::string> worker_endpoints = {}; // "host:port"
  std::vector<std::string> server_endpoints = {};
};

// From arguments. Workers of a collective job meet at the first worker's
// endpoint. Throws InvalidArgument when they contradict each other.
class UserDefinedRoleMaker : public RoleMaker {
 public:
  explicit UserDefinedRoleMaker(const UserDefinedRole& role);
};

} // namespace argosy::fleet
