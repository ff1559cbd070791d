#pragma once

#include <chrono>
#include <string>

namespace argosy {

// The time at which a wait gives up. It is passed down through every call that
// may block, so that an operation with many waits has one limit.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // `limit` from now. Negative limits count as zero.
  static Deadline after(std::chrono::nanoseconds limit);

  bool expired() const;

  // Time left; zero when expired.
  std::chrono::milliseconds remaining() const;

  // Time left, at most `slice` and at least 1 ms: a time-out for polls.
  std::chrono::milliseconds remaining(std::chrono::milliseconds slice) const;

  // The earlier of this and `limit` from now.
  Deadline earlier(std::chrono::nanoseconds limit) const;

  Clock::time_point time() const { return time_; }

  // The limit that the caller asked for, "30 s" or "250 ms", for messages.
  std::string limit_text() const;

 private:
  Deadline(Clock::time_point time, std::chrono::nanoseconds limit)
      : time_(time), limit_(limit) {}

  Clock::time_point time_;
  std::chrono::nanoseconds limit_;
};

// "1.5 s", "250 ms", "30 min".
std::string duration_text(std::chrono::nanoseconds duration);

} // namespace argosy
