#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "argosy/common/process_status.h"

namespace argosy::launch {

struct WorkerResult {
  pid_t pid = 0;
  ProcessStatus status;
  std::chrono::system_clock::time_point ended;
  bool stopped = false; // ended after it was told to: not a failure of its own

  bool failed() const { return !stopped && !status.success(); }

  bool operator==(const WorkerResult&) const = default;
};

enum class Ending {
  Completed, // all workers succeeded, and the other nodes' too
  Failed,    // a worker here failed
  Signalled, // somebody sent a signal that ends the job
  Recalled,  // another node failed
  Abandoned, // the process that guards this one is gone
};

// How one attempt ended on this node.
struct Outcome {
  Ending ending = Ending::Completed;
  int signal = 0; // the first that was to end the job, whatever the ending
  std::vector<WorkerResult> results; // as in the plan

  bool operator==(const Outcome&) const = default;
};

} // namespace argosy::launch
