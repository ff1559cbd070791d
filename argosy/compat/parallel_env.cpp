#include "argosy/compat/parallel_env.h"

#include <utility>

#include "argosy/common/environment.h"
#include "argosy/world/init.h"

namespace argosy {

ParallelEnv::ParallelEnv() : ParallelEnv(launch_info()) {}

ParallelEnv::ParallelEnv(LaunchInfo info) : info_(std::move(info)) {
  // For programs that ask; Argosy itself uses neither devices nor rings.
  const Environment env = Environment::of_process();
  device_id_ = static_cast<int>(env.find_int("DEVICE_ID", 0).value_or(0));
  nrings_ =
      static_cast<int>(env.find_int("FLAGS_nccl_nrings", 1, 8).value_or(1));
  pg_timeout_ = default_timeout(env);
}

std::string ParallelEnv::current_endpoint() const {
  return info_.current_endpoint ? info_.current_endpoint->text() : "";
}

std::vector<std::string> ParallelEnv::trainer_endpoints() const {
  std::vector<std::string> endpoints;
  for (const Endpoint& endpoint : info_.worker_endpoints) {
    endpoints.push_back(endpoint.text());
  }
  return endpoints;
}

} // namespace argosy
