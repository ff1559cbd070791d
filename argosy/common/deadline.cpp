#include "argosy/common/deadline.h"

#include <algorithm>
#include <cstdio>

#include "argosy/common/timeline.h"

namespace argosy {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

Deadline Deadline::after(nanoseconds limit) {
  // Clamped, so that the sum cannot overflow.
  const nanoseconds kLongest = std::chrono::hours(24 * 365);
  limit = std::clamp(limit, nanoseconds::zero(), kLongest);
  return {time_now() + limit, limit};
}

bool Deadline::expired() const {
  return time_now() >= time_;
}

milliseconds Deadline::remaining() const {
  // Rounds up, so that 0 means expired.
  const auto left = std::chrono::ceil<milliseconds>(time_ - time_now());
  return std::max(left, milliseconds::zero());
}

milliseconds Deadline::remaining(milliseconds slice) const {
  // Never 0, with which a loop around poll() would spin.
  return std::max(std::min(remaining(), slice), milliseconds(1));
}

Deadline Deadline::earlier(nanoseconds limit) const {
  const Deadline other = after(limit);
  return other.time_ < time_ ? other : *this;
}

std::string Deadline::limit_text() const {
  return duration_text(limit_);
}

std::string duration_text(nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  char text[32];
  if (seconds < 1) {
    std::snprintf(text, sizeof(text), "%.4g ms", seconds * 1e3);
  } else if (seconds < 600) {
    std::snprintf(text, sizeof(text), "%.4g s", seconds);
  } else {
    std::snprintf(text, sizeof(text), "%.4g min", seconds / 60);
  }
  return text;
}

} // namespace argosy
