#include "argosy/comm/work.h"

#include <utility>

#include "argosy/comm/operation/observer.h"
#include "argosy/common/error.h"

namespace argosy {

void Work::run(const std::function<void()>& operation) {
  std::exception_ptr caught;
  try {
    operation();
  } catch (...) {
    caught = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  exception_ = caught;
  completed_ = true;
  changed_.notify_all();
}

// Tells the calling thread's observer of a wait, if it is the first.
class Work::Telling {
 public:
  explicit Telling(Work& work) : observer_(comm::ThreadObserver::of_waits()) {
    if (observer_ == nullptr) {
      return;
    }
    {
      const std::lock_guard lock(work.mutex_);
      if (std::exchange(work.awaited_, true)) {
        observer_ = nullptr;
        return;
      }
    }
    observer_->before_wait();
  }
  ~Telling() {
    if (observer_ != nullptr) {
      observer_->after_wait();
    }
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

 private:
  comm::ThreadObserver* observer_;
};

void Work::wait() {
  const Telling telling(*this);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_; });
  if (exception_) {
    std::rethrow_exception(exception_);
  }
}

void Work::wait(Deadline deadline) {
  const Telling telling(*this);
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(
            lock, deadline.time(), [&] { return completed_; })) {
      throw TimeoutError(
          str("[comm.wait] the operation did not end within ",
              deadline.limit_text()));
    }
  }
  wait();
}

bool Work::is_completed() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}

std::exception_ptr Work::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

} // namespace argosy
