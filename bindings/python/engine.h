#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "argosy/common/deadline.h"

namespace argosy::python {

class TorchWork;

// Runs steps, one at a time, on its own thread or on a thread that waits for
// the result and would otherwise sleep. So a synchronous operation costs no
// thread switch, although c10d issues all operations alike.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default; // after stop()
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Runs steps on the calling thread until the work has ended, no step is left,
  // or another thread is running steps.
  void help(TorchWork& work);

  // Returns whether all issued work has ended by the deadline.
  bool drain(Deadline deadline);

  // Runs the remaining steps and ends the thread. Derived classes call it in
  // their destructors, since steps are theirs.
  void stop();

 protected:
  using Lock = std::unique_lock<std::mutex>;

  // Called with the lock held.
  virtual bool has_step() const = 0;
  // Called with the lock held; releases it while it works.
  virtual void step(Lock& lock) = 0;

  Lock lock() { return Lock(mutex_); }
  // Announces a step. Starts the thread if there is none yet.
  void wake(const Lock& lock);

 private:
  void loop();
  void take_step(Lock& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable drained_;
  // Guarded by mutex_.
  bool busy_ = false; // a thread is running a step
  bool stop_ = false;
  std::thread thread_;
};

} // namespace argosy::python
