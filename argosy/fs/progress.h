#pragma once

#include <mutex>

#include "argosy/fs/file_system.h"

namespace argosy::fs {

// Calls an OnProgress at the moments that it promises. Thread-safe.
class ProgressMeter {
 public:
  ProgressMeter(
      std::string url,
      std::optional<std::uint64_t> total_bytes,
      OnProgress on_progress);

  void add(std::uint64_t bytes);

  // The transfer is complete.
  void finish();

 private:
  void tell();

  using Clock = std::chrono::steady_clock;

  const OnProgress on_progress_;
  const Clock::time_point began_;
  std::mutex mutex_;
  TransferState state_;    // guarded by mutex_
  Clock::time_point next_; // guarded by mutex_
  bool told_ = false;      // guarded by mutex_
};

} // namespace argosy::fs
