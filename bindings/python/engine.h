#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "argosy/common/deadline.h"

namespace argosy::python {

class TorchWork;

// Takes steps, one at a time: on a thread of its own, or on that of somebody
// who waits for the outcome and would otherwise sleep. A synchronous operation
// so costs no change of threads, though c10d issues all of them alike.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default; // after stop()
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes steps on the calling thread until the work has ended, nothing is
  // left, or another thread is at it.
  void help(TorchWork& work);

  // Whether everything that was issued has ended by the deadline.
  bool drain(Deadline deadline);

  // Takes the steps that are left, and ends the thread. Before the object is
  // destroyed, whose steps these are.
  void stop();

 protected:
  using Lock = std::unique_lock<std::mutex>;

  // Called with the lock held.
  virtual bool has_step() const = 0;
  // Called with the lock held; lets go of it while it is at work.
  virtual void step(Lock& lock) = 0;

  Lock lock() { return Lock(mutex_); }
  // There is a step to take. Starts the thread if there is none yet.
  void wake(const Lock& lock);

 private:
  void loop();
  void take_step(Lock& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable drained_;
  // Guarded by mutex_.
  bool busy_ = false; // somebody takes a step
  bool stop_ = false;
  std::thread thread_;
};

} // namespace argosy::python
