#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "argosy/common/deadline.h"

namespace argosy {

// An issued operation: pending, done or failed. Thread-safe.
class Work {
 public:
  // Waits until the operation has ended, and throws what it threw. The first
  // form waits as long as the operation itself may take. The second throws
  // TimeoutError at the deadline; the operation goes on.
  void wait();
  void wait(Deadline deadline);

  bool is_completed() const;

  // What the operation threw; null if it succeeded or is still pending.
  std::exception_ptr exception() const;

  // For whoever runs the operation: runs it and stores its outcome.
  void run(const std::function<void()>& operation);

 private:
  class Telling;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool completed_ = false;       // guarded by mutex_
  bool awaited_ = false;         // guarded by mutex_
  std::exception_ptr exception_; // guarded by mutex_
};

} // namespace argosy
