#pragma once

#include <deque>

#include "bindings/python/engine.h"
#include "bindings/python/torch_work.h"

namespace argosy::python {

// Executes operations in the order in which they were issued.
class OperationQueue final : public Engine {
 public:
  ~OperationQueue() override { stop(); }

  void issue(TorchWorkPtr work) {
    const Lock held = lock();
    waiting_.push_back(std::move(work));
    wake(held);
  }

 private:
  bool has_step() const override { return !waiting_.empty(); }

  void step(Lock& held) override {
    const TorchWorkPtr work = std::move(waiting_.front());
    waiting_.pop_front();
    held.unlock();
    work->execute();
    held.lock();
  }

  std::deque<TorchWorkPtr> waiting_; // guarded by the lock
};

} // namespace argosy::python
