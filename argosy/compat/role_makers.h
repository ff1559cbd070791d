#pragma once

#include <string>
#include <vector>

#include "argosy/fleet/job_role.h"

// Role makers of paddle.distributed.fleet. fleet::init() takes any of them.
namespace argosy::fleet {

using RoleMaker = JobRole;

// The role that the launch environment gives: adopt_role().
class PaddleCloudRoleMaker : public JobRole {
 public:
  explicit PaddleCloudRoleMaker(bool is_collective = false);
  PaddleCloudRoleMaker(bool is_collective, const Environment& environment);
};

struct UserDefinedRole {
  bool is_collective = false;
  int current_id = 0; // within the role
  Role role = Role::Worker;
  int worker_num = 0; // 0: as many as worker_endpoints
  std::vector<std::string> worker_endpoints = {}; // "host:port"
  std::vector<std::string> server_endpoints = {};
};

// The role that the arguments give. Workers of a collective job meet at the
// first worker's endpoint. Throws InvalidArgument when the arguments contradict
// each other.
class UserDefinedRoleMaker : public JobRole {
 public:
  explicit UserDefinedRoleMaker(const UserDefinedRole& role);
};

} // namespace argosy::fleet
