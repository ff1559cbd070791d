#include "argosy/launch/interrupt.h"

#include <poll.h>

#include <algorithm>

#include "argosy/common/deadline.h"
#include "argosy/common/process_status.h"

namespace argosy::launch {

Interrupted::Interrupted(int signal)
    : Error(str("[launch] ended by ", signal_name(signal))), signal_(signal) {}

void Interrupt::pause(std::chrono::milliseconds time) {
  const Deadline end = Deadline::after(time);
  do {
    pollfd polled[] = {{signals_.fd(), POLLIN, 0}, {alive_fd_, POLLIN, 0}};
    ::poll(polled, 2, static_cast<int>(end.remaining(time).count()));
    if (polled[1].revents != 0) {
      throw Interrupted(SIGKILL);
    }
    // Drops signals that only workers should get: none runs during a pause.
    while (const auto signal = signals_.next()) {
      if (std::ranges::find(ending_, *signal) != ending_.end()) {
        throw Interrupted(*signal);
      }
    }
  } while (!end.expired());
}

} // namespace argosy::launch
