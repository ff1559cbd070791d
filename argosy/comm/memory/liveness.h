#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "argosy/common/process_watch.h"

namespace argosy::comm::memory {

// Tells which of the processes of a group have ended, within microseconds, also
// before their parents have reaped them.
class Liveness {
 public:
  // One process for each rank; -1 for ranks that are not watched.
  explicit Liveness(const std::vector<pid_t>& processes);

  bool is_dead(int rank) const;

  // Whether any of them is; one call of the system for all.
  bool is_any_dead() const;

  // Null: not watched.
  const ProcessWatch* watch(int rank) const {
    return watches_[static_cast<std::size_t>(rank)].get();
  }

 private:
  std::vector<std::shared_ptr<const ProcessWatch>> watches_;
};

} // namespace argosy::comm::memory
