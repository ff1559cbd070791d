#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "argosy/common/deadline.h"

namespace argosy::store {

// Exponential backoff between retries: 5 ms, doubling up to 250 ms.
class Backoff {
 public:
  // Sleeps, but not beyond the deadline.
  void pause(const Deadline& deadline) {
    std::this_thread::sleep_for(std::min(next_, deadline.remaining()));
    next_ = std::min(next_ * 2, std::chrono::milliseconds(250));
  }

 private:
  std::chrono::milliseconds next_{5};
};

} // namespace argosy::store
