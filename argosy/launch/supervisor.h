#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/launch/outcome.h"
#include "argosy/launch/plan.h"
#include "argosy/launch/signals.h"

namespace argosy::launch {

// The rest of the job, on other nodes, as far as the supervisor cares.
class JobWatch {
 public:
  virtual ~JobWatch() = default;

  // Whether the workers here must end, since another node failed.
  virtual bool must_stop() = 0;

  // Asked again and again once all workers here succeeded: whether those of
  // the other nodes did too.
  virtual bool all_done() = 0;
};

struct SuperviseOptions {
  std::chrono::milliseconds grace{30'000};
  // After a failure, how long the others may end by themselves.
  std::chrono::milliseconds linger{0};
  std::vector<int> ending_signals;
  int alive_fd = -1; // ready: the guard is gone
  int stdin_fd = -1; // its end ends the job; -1: not watched
  // Null: the job is on this node alone.
  JobWatch* watch = nullptr;
  std::chrono::milliseconds watch_interval{100};
};

// Starts the workers of `plan`, watches them to their end, and leaves no
// descendant of this process behind. When one fails, the others are told to
// end (SIGTERM), and killed when they have not within the grace period.
// Throws SystemError when a worker cannot be started.
//
// One thread, one poll loop; `signals` must have been made before.
Outcome supervise(
    const JobPlan& plan,
    const Environment& inherited,
    const SuperviseOptions& options,
    SignalSource& signals);

} // namespace argosy::launch
