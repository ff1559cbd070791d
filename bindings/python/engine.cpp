#include "bindings/python/engine.h"

#include "bindings/python/torch_work.h"

namespace argosy::python {

void Engine::take_step(Lock& lock) {
  busy_ = true;
  step(lock);
  busy_ = false;
  if (!has_step()) {
    drained_.notify_all();
  }
}

void Engine::help(TorchWork& work) {
  Lock held = lock();
  while (!busy_ && has_step() && !work.isCompleted()) {
    take_step(held);
  }
  // wake() notified nobody while this thread was busy, so the engine's own
  // thread must take over what is left.
  if (stop_ || has_step()) {
    changed_.notify_one();
  }
}

// A busy thread looks for further steps before it leaves, so it needs no
// notice.
void Engine::wake(const Lock& /*held*/) {
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { loop(); });
  } else if (!busy_) {
    changed_.notify_one();
  }
}

void Engine::loop() {
  Lock held = lock();
  for (;;) {
    changed_.wait(held, [&] { return !busy_ && (stop_ || has_step()); });
    if (!has_step()) {
      return;
    }
    take_step(held);
  }
}

bool Engine::drain(Deadline deadline) {
  Lock held = lock();
  return drained_.wait_until(
      held, deadline.time(), [&] { return !busy_ && !has_step(); });
}

void Engine::stop() {
  {
    const Lock held = lock();
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

} // namespace argosy::python
