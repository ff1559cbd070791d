#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "argosy/heap/free_space.h"
#include "argosy/heap/shared_memory.h"

namespace argosy::heap {

// Whether other processes can map the heap and access its contents in place. A
// private heap uses huge pages where available.
enum class Sharing { Private, Shared };

// An address range as large as the machine's memory. Pages are allocated on
// first touch and kept for later allocations; the heap never holds more pages
// than were in use at once. Thread-safe.
class Heap {
 public:
  // Throws SystemError when the range cannot be mapped.
  Heap(Sharing sharing, std::size_t bytes);

  // Allocates whole pages. Returns null when the heap is full, and in a forked
  // child that shares the heap with its parent.
  void* allocate(std::size_t bytes);
  void free(void* data);

  bool contains(const void* data) const {
    const auto* place = static_cast<const std::byte*>(data);
    return place >= base_.get() && place < base_.get() + bytes_;
  }

  // Identifies a shared heap for HeapView::open() in another process.
  std::string description() const;

  // Called in a forked child: the parent keeps using the pages, so the child
  // must not allocate here.
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

// Returns this process's shared heap; null if there is none.
Heap* shared_heap();

// Returns this process's heap of the given kind, created on first use. It is
// never destroyed, because static tensors may be in it. Null if the system
// cannot provide one.
Heap* make_process_heap(Sharing sharing);

} // namespace argosy::heap
