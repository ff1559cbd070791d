#pragma once

#include <chrono>
#include <memory>

#include "argosy/common/deadline.h"
#include "argosy/world/launch_info.h"

namespace c10d {
class Store;
}

// The scheduler of MindSpore's dynamic networking: a process that trains
// nothing, serves the store, and ends with the job. Not installed.
namespace argosy {

// Returns when all `num_workers` have left. Throws TimeoutError when they did
// not all come until `come_by`, PeerLost when one fell silent for longer than
// `silence`; both name the workers.
void serve_as_scheduler(
    c10d::Store& store,
    int num_workers,
    Deadline come_by,
    std::chrono::milliseconds silence);

// Tells the scheduler that `rank` lives, for as long as the object does.
// Connects to the store of `info` a second time: a long wait of the rank on
// its own connection must not look like silence.
class Heartbeat {
 public:
  Heartbeat(const LaunchInfo& info, int rank, Deadline deadline);
  ~Heartbeat();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy
