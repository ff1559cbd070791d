#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "argosy/common/deadline.h"

namespace argosy::store {

// Pauses between tries: 5 ms, then twice as long each time up to 250 ms.
class Backoff {
 public:
  // Sleeps, not past the deadline.
  void pause(const Deadline& deadline) {
    std::this_thread::sleep_for(std::min(next_, deadline.remaining()));
    next_ = std::min(next_ * 2, std::chrono::milliseconds(250));
  }

 private:
  std::chrono::milliseconds next_{5};
};

} // namespace argosy::store
