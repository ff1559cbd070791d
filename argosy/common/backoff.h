#pragma once

#include <algorithm>
#include <chrono>

#include "argosy/common/deadline.h"
#include "argosy/common/timeline.h"

namespace argosy {

// Pauses between tries, each twice as long as the one before.
class Backoff {
 public:
  explicit Backoff(
      std::chrono::microseconds first = std::chrono::milliseconds(5),
      std::chrono::microseconds longest = std::chrono::milliseconds(250))
      : next_(first), longest_(longest) {}

  // Sleeps, not past the deadline.
  void pause(const Deadline& deadline) {
    sleep_until(
        std::min<Timeline::TimePoint>(time_now() + next_, deadline.time()));
    next_ = std::min(next_ * 2, longest_);
  }

 private:
  std::chrono::microseconds next_;
  const std::chrono::microseconds longest_;
};

} // namespace argosy
