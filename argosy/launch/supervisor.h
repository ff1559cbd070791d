#pragma once

#include <chrono>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/launch/console.h"
#include "argosy/launch/hang_notice.h"
#include "argosy/launch/outcome.h"
#include "argosy/launch/plan.h"
#include "argosy/launch/signals.h"
#include "argosy/launch/worker_restarts.h"

namespace argosy::launch {

// The state of the job on other nodes.
class JobWatch {
 public:
  virtual ~JobWatch() = default;

  // Whether workers here must end because another node failed.
  virtual bool must_stop() = 0;

  // Polled once all workers here have succeeded: whether those of the other
  // nodes have, too.
  virtual bool all_done() = 0;
};

struct SuperviseOptions {
  Consoles& consoles;
  std::chrono::milliseconds grace{30'000};
  // After a failure, how long other workers may take to end by themselves.
  std::chrono::milliseconds linger{0};
  std::vector<int> ending_signals;
  int alive_fd = -1; // readable when the guard is gone
  int stdin_fd = -1; // its end of file ends the job; -1: not watched
  // Null: the job is on this node only.
  JobWatch* watch = nullptr;
  std::chrono::milliseconds watch_interval{100};
  HangNotice* notice = nullptr; // null: nobody looks for a hang
  // Null: a worker that fails ends the others.
  WorkerRestarts* restarts = nullptr;
};

// Starts the workers of `plan`, supervises them until they end, and leaves no
// descendant of this process behind. If one fails, it is started again if
// `options.restarts` allows it; else the others get SIGTERM, and SIGKILL after
// the grace period. Blocks. Throws SystemError when a worker cannot be started.
//
// Single-threaded, one poll loop; `signals` must exist before.
Outcome supervise(
    const JobPlan& plan,
    const Environment& inherited,
    const SuperviseOptions& options,
    SignalSource& signals);

} // namespace argosy::launch
