#pragma once

#include <chrono>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/launch/signals.h"

namespace argosy::launch {

// A signal ended a wait. Not a failure: the launcher exits with 128 + signal.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal);

  int signal() const { return signal_; }

 private:
  int signal_;
};

// Waits that end early when a signal should end the job or the guard is gone.
// Used while no worker is running, so that nobody supervises.
class Interrupt {
 public:
  Interrupt(SignalSource& signals, std::vector<int> ending, int alive_fd)
      : signals_(signals), ending_(std::move(ending)), alive_fd_(alive_fd) {}

  // Waits for `time`. Throws Interrupted.
  void pause(std::chrono::milliseconds time);

 private:
  SignalSource& signals_;
  const std::vector<int> ending_;
  const int alive_fd_;
};

} // namespace argosy::launch
