#pragma once

#include <csignal>
#include <optional>
#include <vector>

#include "argosy/launch/fd.h"

namespace argosy::launch {

// Receives signals through a file descriptor. Blocks them for the calling
// thread and for the processes it forks. SIGCHLD is always included; SIGPIPE is
// blocked and dropped. Signals that the process inherited as ignored (nohup)
// stay ignored.
class SignalSource {
 public:
  explicit SignalSource(const std::vector<int>& signals);

  int fd() const { return fd_.get(); }

  // Returns the next pending signal; does not block.
  std::optional<int> next();

  // Blocks until a signal arrives.
  int wait();

 private:
  sigset_t set_;
  Fd fd_;
};

} // namespace argosy::launch
