#pragma once

#include <csignal>
#include <optional>
#include <vector>

#include "argosy/launch/fd.h"

namespace argosy::launch {

// Turns signals into readable events: blocks them for the calling thread, and
// for what it forks, and hands them out one by one. SIGCHLD is always among
// them; SIGPIPE is blocked and dropped. A signal that the process was started
// with ignored (nohup) stays ignored.
class SignalSource {
 public:
  explicit SignalSource(const std::vector<int>& signals);

  int fd() const { return fd_.get(); }

  // The next pending signal, or nothing. Never waits.
  std::optional<int> next();

  // Waits for the next signal.
  int wait();

 private:
  sigset_t set_;
  Fd fd_;
};

} // namespace argosy::launch
