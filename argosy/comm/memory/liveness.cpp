#include "argosy/comm/memory/liveness.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace argosy::comm::memory {

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
  pollfd fd{pidfds_[static_cast<std::size_t>(rank)], POLLIN, 0};
  return ::poll(&fd, 1, 0) > 0;
}

} // namespace argosy::comm::memory
