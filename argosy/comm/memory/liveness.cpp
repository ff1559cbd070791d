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

std::vector<int> Liveness::dead_ranks() const {
  std::vector<pollfd> fds;
  fds.reserve(pidfds_.size());
  for (const int fd : pidfds_) {
    fds.push_back({fd, POLLIN, 0}); // poll() passes over negative ones
  }
  std::vector<int> dead;
  if (::poll(fds.data(), fds.size(), 0) <= 0) {
    return dead;
  }
  for (std::size_t rank = 0; rank < fds.size(); ++rank) {
    if (fds[rank].revents != 0) {
      dead.push_back(static_cast<int>(rank));
    }
  }
  return dead;
}

} // namespace argosy::comm::memory
