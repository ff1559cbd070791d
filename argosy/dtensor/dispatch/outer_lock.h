#pragma once

namespace argosy::dtensor {

// A lock that callers may hold which have nothing to do with the op, such as a
// Python interpreter's. An op that waits for other ranks would keep it from
// those that are threads of this process, and wait forever.
struct OuterLock {
  // Lets go of the lock if the calling thread holds it; what it returns is
  // given back to take_back(), if not null.
  void* (*let_go)();
  void (*take_back)(void* held);
};

// For all ops on DTensors from now on. `lock` must live as long as the process.
void set_outer_lock(const OuterLock* lock);

// The calling thread is without it while in scope.
class WithoutOuterLock {
 public:
  WithoutOuterLock();
  ~WithoutOuterLock();
  WithoutOuterLock(const WithoutOuterLock&) = delete;
  WithoutOuterLock& operator=(const WithoutOuterLock&) = delete;

 private:
  const OuterLock* const lock_;
  void* const held_;
};

} // namespace argosy::dtensor
