#pragma once

#include <chrono>
#include <cstdint>
#include <string>

// Not installed. Torch-free.
namespace argosy::checkpoint {

// Lines in the log about something that takes long: the first after two
// seconds, then every five. They appear although information usually does not;
// ARGOSY_LOG=error turns them off.
class ProgressLog {
 public:
  using Clock = std::chrono::steady_clock;

  // `what`: "[checkpoint.save] step 10". Not `enabled`: no lines.
  ProgressLog(std::string what, bool enabled, Clock::time_point begin);

  // Call it often.
  void tell(std::uint64_t bytes, std::uint64_t total);

  // The line that is due; empty if none is.
  std::string next_line(
      std::uint64_t bytes, std::uint64_t total, Clock::time_point now);

 private:
  const std::string what_;
  const bool enabled_;
  const Clock::time_point begin_;
  Clock::time_point due_;
};

} // namespace argosy::checkpoint
