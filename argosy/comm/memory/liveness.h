#pragma once

#include <sys/types.h>

#include <vector>

namespace argosy::comm::memory {

// Knows which of some processes have ended, within microseconds and also while
// nobody has reaped them.
class Liveness {
 public:
  // One process per rank; -1 for ranks that need no watching.
  explicit Liveness(const std::vector<pid_t>& processes);
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  bool is_dead(int rank) const;

 private:
  std::vector<int> pidfds_; // -1: not watched
};

} // namespace argosy::comm::memory
