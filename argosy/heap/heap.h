#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "argosy/heap/free_space.h"
#include "argosy/heap/shared_memory.h"

namespace argosy::heap {

// Whether other processes can map a heap, and read and write in place what lies
// in it. One that they cannot has huge pages where the system gives them.
enum class Sharing { Private, Shared };

// A stretch of addresses, as long as the machine's memory. Pages come when they
// are touched, and stay for the next who asks for memory: the heap never holds
// more of them than were in use at once. Thread-safe.
class Heap {
 public:
  // Throws SystemError when there can be none.
  Heap(Sharing sharing, std::size_t bytes);

  // Whole pages; null when it is full, and in a child process that shares it
  // with its parent after fork().
  void* allocate(std::size_t bytes);
  void free(void* data);

  bool contains(const void* data) const {
    const auto* place = static_cast<const std::byte*>(data);
    return place >= base_.get() && place < base_.get() + bytes_;
  }

  // Of a shared one, for HeapView::open() of another process.
  std::string description() const;

  // A child has the parent's pages, and the parent goes on using them.
  void leave_to_parent() { left_.store(true, std::memory_order_relaxed); }

 private:
  void drop_idle_pages();

  const std::size_t bytes_;
  const std::optional<SharedMemory> shared_;
  const std::shared_ptr<std::byte> base_;
  std::atomic<bool> left_{false};
  std::mutex mutex_;
  FreeSpace space_; // guarded by mutex_
};

// The heap of this process that others can map; null before it is made.
Heap* shared_heap();

// The heap of this process of either kind, made by the first call. Lives until
// the process ends, as tensors do that are static. Null when this system has no
// place for one.
Heap* make_process_heap(Sharing sharing);

} // namespace argosy::heap
