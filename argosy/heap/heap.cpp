#include "argosy/heap/heap.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"

namespace argosy::heap {

namespace {

constexpr std::size_t kPage = 4096;
// Of addresses: all ranks of a host map each other's.
constexpr std::size_t kMostBytes = std::size_t{1} << 39;
// Pages are dropped in larger lots.
constexpr std::size_t kSlack = std::size_t{64} << 20;

std::size_t machine_bytes() {
  const auto pages = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Where memory must be promised before it is used, a page of ours that is not
// to be had would end the process; malloc would have said so.
bool promises_are_strict() {
  const auto mode = read_file("/proc/sys/vm/overcommit_memory");
  return mode && trim(*mode) == "2";
}

std::atomic<Heap*>& place_of_heap() {
  static std::atomic<Heap*> heap{nullptr};
  return heap;
}

void leave_heap_to_parent() {
  if (Heap* heap = process_heap()) {
    heap->leave_to_parent();
  }
}

// Lives until the process ends: tensors do that are static.
Heap* make_heap() {
  if (promises_are_strict()) {
    return nullptr;
  }
  try {
    auto* heap = new Heap(std::min(machine_bytes(), kMostBytes));
    ::pthread_atfork(nullptr, nullptr, leave_heap_to_parent);
    return heap;
  } catch (const SystemError& error) {
    log::info("[heap] tensors stay private: ", error.what());
    return nullptr;
  }
}

} // namespace

Heap::Heap(std::size_t bytes)
    : bytes_(bytes / kPage * kPage),
      memory_(SharedMemory::create(bytes_)),
      space_(bytes_) {}

void* Heap::allocate(std::size_t bytes) {
  if (left_.load(std::memory_order_relaxed) || bytes > bytes_) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  const auto begin = space_.take((bytes + kPage - 1) / kPage * kPage);
  return begin ? memory_.get() + *begin : nullptr;
}

void Heap::free(void* data) {
  if (left_.load(std::memory_order_relaxed)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  space_.give_back(
      static_cast<std::size_t>(static_cast<std::byte*>(data) - memory_.get()));
  drop_idle_pages();
}

void Heap::drop_idle_pages() {
  const std::size_t keep = space_.most_used() - space_.used();
  if (space_.idle() <= keep + kSlack) {
    return;
  }
  for (const Range& range : space_.drop_pages(keep)) {
    ::madvise(memory_.get() + range.begin, range.bytes, MADV_REMOVE);
  }
}

std::string Heap::description() const {
  return str(
      memory_.description(),
      " ",
      reinterpret_cast<std::uintptr_t>(memory_.get()),
      " ",
      bytes_);
}

Heap* process_heap() {
  return place_of_heap().load(std::memory_order_acquire);
}

bool make_process_heap() {
  static Heap* const heap = make_heap();
  place_of_heap().store(heap, std::memory_order_release);
  return heap != nullptr;
}

} // namespace argosy::heap
