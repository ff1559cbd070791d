#include "argosy/dtensor/dispatch/outer_lock.h"

#include <atomic>

namespace argosy::dtensor {

namespace {

// Of the process, as such a lock is.
std::atomic<const OuterLock*> outer_lock{nullptr};

} // namespace

void set_outer_lock(const OuterLock* lock) {
  outer_lock.store(lock);
}

WithoutOuterLock::WithoutOuterLock()
    : lock_(outer_lock.load(std::memory_order_acquire)),
      held_(lock_ != nullptr ? lock_->let_go() : nullptr) {}

WithoutOuterLock::~WithoutOuterLock() {
  if (held_ != nullptr) {
    lock_->take_back(held_);
  }
}

} // namespace argosy::dtensor
