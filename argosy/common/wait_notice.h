#pragma once

#include <chrono>
#include <optional>

#include "argosy/common/timeline.h"

namespace argosy {

// When to tell a user that something still waits: what takes a normal time
// prints nothing, and a long wait one line in 15 s.
class WaitNotice {
 public:
  // Returns how long the wait has lasted if a line is due, and counts it as
  // printed.
  std::optional<std::chrono::milliseconds> due() {
    const auto now = time_now();
    if (now < next_) {
      return std::nullopt;
    }
    next_ = now + std::chrono::seconds(15);
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - began_);
  }

 private:
  Timeline::TimePoint began_ = time_now();
  Timeline::TimePoint next_ = began_ + std::chrono::seconds(5);
};

} // namespace argosy
