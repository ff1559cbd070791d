#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>

#include "argosy/common/deadline.h"
#include "argosy/world/launch_info.h"

namespace c10d {
class Store;
}

// The scheduler of MindSpore's dynamic cluster: a process that does not train,
// serves the store, and ends with the job. Not installed.
namespace argosy {

// Blocks until all `num_workers` have left. Throws TimeoutError if not all have
// come by `come_by`, PeerLost if one is silent for longer than `silence`; both
// name the workers.
void serve_as_scheduler(
    c10d::Store& store,
    int num_workers,
    Deadline come_by,
    std::chrono::milliseconds silence);

// Sends heartbeats of `rank` to the scheduler while it is alive. Uses a second
// connection to the store, so that a long wait on the rank's own connection
// does not look like silence.
class Heartbeat {
 public:
  Heartbeat(const LaunchInfo& info, int rank, Deadline deadline);
  // Nobody else may use `store`.
  Heartbeat(const c10::intrusive_ptr<c10d::Store>& store, int rank);
  // Waits for a beat that is under way, but not for long: a scheduler that
  // hangs may never answer.
  ~Heartbeat();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_; // shared with the thread, which may outlive this
};

} // namespace argosy
