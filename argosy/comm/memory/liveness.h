#pragma once

#include <sys/types.h>

#include <vector>

namespace argosy::comm::memory {

// Tells which processes have ended, within microseconds, also before their
// parents have reaped them.
class Liveness {
 public:
  // One process for each rank; -1 for ranks that are not watched.
  explicit Liveness(const std::vector<pid_t>& processes);
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  bool is_dead(int rank) const;

 private:
  std::vector<int> pidfds_; // -1: not watched
};

} // namespace argosy::comm::memory
