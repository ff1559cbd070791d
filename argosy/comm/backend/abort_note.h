#pragma once

#include <mutex>
#include <string>

namespace argosy::comm {

// That a group was aborted, for those who connect it: there is no backend yet
// that could say so. Thread-safe.
class AbortNote {
 public:
  // The first reason stays.
  void write(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!written_) {
      written_ = true;
      reason_ = reason;
    }
  }

  bool is_written() const {
    const std::lock_guard lock(mutex_);
    return written_;
  }

  std::string reason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

 private:
  mutable std::mutex mutex_;
  bool written_ = false; // guarded by mutex_
  std::string reason_;   // guarded by mutex_
};

} // namespace argosy::comm
