#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "argosy/common/deadline.h"

namespace argosy {

// An operation that was issued: done, failed or still under way. Thread-safe.
class Work {
 public:
  // Waits for the end and throws what the operation threw. The first form has
  // the limit that the operation itself has. The second throws TimeoutError at
  // the deadline; the operation goes on.
  void wait();
  void wait(Deadline deadline);

  bool is_completed() const;

  // What the operation threw, or null; null too while it is under way.
  std::exception_ptr exception() const;

  // For those who carry operations out: runs `operation` and keeps its outcome.
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
