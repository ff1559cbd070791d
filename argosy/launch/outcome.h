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
  bool stopped = false; // it ended because it was told to: not a failure

  bool failed() const { return !stopped && !status.success(); }

  bool operator==(const WorkerResult&) const = default;
};

enum class Ending {
  Completed, // all workers succeeded, also on other nodes
  Failed,    // a worker on this node failed
  Signalled, // a signal ended the job
  Recalled,  // another node failed
  Abandoned, // the guard process is gone
};

// How an attempt ended on this node.
struct Outcome {
  Ending ending = Ending::Completed;
  int signal = 0; // the first signal to end the job, whatever the ending
  std::vector<WorkerResult> results; // in the order of the plan

  bool operator==(const Outcome&) const = default;
};

} // namespace argosy::launch
