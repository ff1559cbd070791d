#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "argosy/heap/free_space.h"
#include "argosy/heap/shared_memory.h"

namespace argosy::heap {

// A stretch of addresses, as long as the machine's memory, whose pages other
// processes can map: what lies in it, they read and write in place. Pages come
// when they are touched, and stay for the next who asks for memory: the heap
// never holds more of them than were in use at once. Thread-safe.
class Heap {
 public:
  // Throws SystemError when there can be none.
  explicit Heap(std::size_t bytes);

  // Whole pages; null when it is full, and in a child process after fork().
  void* allocate(std::size_t bytes);
  void free(void* data);

  bool contains(const void* data) const {
    const auto* place = static_cast<const std::byte*>(data);
    return place >= memory_.get() && place < memory_.get() + bytes_;
  }

  // For HeapView::open() of another process.
  std::string description() const;

  // A child has the parent's pages, and the parent goes on using them.
  void leave_to_parent() { left_.store(true, std::memory_order_relaxed); }

 private:
  void drop_idle_pages();

  const std::size_t bytes_;
  SharedMemory memory_;
  std::atomic<bool> left_{false};
  std::mutex mutex_;
  FreeSpace space_; // guarded by mutex_
};

// The heap of this process, made by make_process_heap(); null before.
Heap* process_heap();

// False when this system has no place for one. Only the first call matters.
bool make_process_heap();

} // namespace argosy::heap
