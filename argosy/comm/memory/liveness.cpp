#include "argosy/comm/memory/liveness.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace argosy::comm::memory {

// A pidfd becomes readable when its process ends, also as a zombie, and never
// refers to a later process with the same pid, as kill(pid, 0) would. Where
// pidfd_open fails (Linux before 5.3), a death shows only at the deadline.
Liveness::Liveness(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) {
    pidfds_.push_back(
        process < 0 ? -1
                    : static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  }
}

Liveness::~Liveness() {
  for (const int fd : pidfds_) {
    if (fd >= 0) {
      ::close(fd);
    }
  }
}

bool Liveness::is_dead(int rank) const {
  // poll() ignores negative descriptors: ranks that are not watched never die.
  pollfd fd{pidfds_[static_cast<std::size_t>(rank)], POLLIN, 0};
  return ::poll(&fd, 1, 0) > 0;
}

} // namespace argosy::comm::memory
