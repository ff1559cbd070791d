#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "argosy/world/launch_info.h"

namespace argosy {

// A snapshot of the launch environment, under the names of paddle.distributed.
// Unlike Paddle's, local_rank() counts ranks of this host.
class ParallelEnv {
 public:
  ParallelEnv();
  explicit ParallelEnv(LaunchInfo info);

  int rank() const { return info_.rank; }
  int local_rank() const { return info_.local_rank; }
  int world_size() const { return info_.size; }
  int nranks() const { return info_.size; }
  int device_id() const { return device_id_; }
  int dev_id() const { return device_id_; }
  std::string device_type() const { return "cpu"; }
  // Empty when the launcher gave none.
  std::string current_endpoint() const;
  std::vector<std::string> trainer_endpoints() const;
  int nrings() const { return nrings_; }
  std::chrono::milliseconds pg_timeout() const { return pg_timeout_; }
  const LaunchInfo& info() const { return info_; }

 private:
  LaunchInfo info_;
  int device_id_ = 0;
  int nrings_ = 1;
  std::chrono::milliseconds pg_timeout_{};
};

} // namespace argosy
