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
// Limits the address range, because all ranks of a host map each other's heaps.
constexpr std::size_t kMostBytes = std::size_t{1} << 39;
// Pages are released in batches of at least this size.
constexpr std::size_t kSlack = std::size_t{64} << 20;

std::size_t machine_bytes() {
  const auto pages = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// With strict overcommit, touching a page that cannot be allocated would kill
// the process, where malloc would have failed.
bool overcommit_is_strict() {
  const auto mode = read_file("/proc/sys/vm/overcommit_memory");
  return mode && trim(*mode) == "2";
}

std::atomic<Heap*>& place_of_shared_heap() {
  static std::atomic<Heap*> heap{nullptr};
  return heap;
}

void leave_heap_to_parent() {
  if (Heap* heap = shared_heap()) {
    heap->leave_to_parent();
  }
}

Heap* make_heap(Sharing sharing) {
  if (overcommit_is_strict()) {
    return nullptr;
  }
  try {
    return new Heap(sharing, std::min(machine_bytes(), kMostBytes));
  } catch (const SystemError& error) {
    log::info("[heap] tensors are allocated by malloc: ", error.what());
    return nullptr;
  }
}

Heap* make_shared_heap() {
  Heap* heap = make_heap(Sharing::Shared);
  if (heap != nullptr) {
    place_of_shared_heap().store(heap, std::memory_order_release);
    ::pthread_atfork(nullptr, nullptr, leave_heap_to_parent);
  }
  return heap;
}

std::optional<SharedMemory> shared_memory(Sharing sharing, std::size_t bytes) {
  if (sharing == Sharing::Private) {
    return std::nullopt;
  }
  return SharedMemory::create(bytes);
}

std::shared_ptr<std::byte> private_memory(std::size_t bytes) {
  void* memory = ::mmap(
      nullptr,
      bytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0);
  if (memory == MAP_FAILED) {
    throw SystemError(with_errno("[heap] mmap"));
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* mapped) {
            ::munmap(mapped, bytes);
          }};
}

} // namespace

Heap::Heap(Sharing sharing, std::size_t bytes)
    : bytes_(bytes / kPage * kPage),
      shared_(shared_memory(sharing, bytes_)),
      base_(shared_ ? shared_->share() : private_memory(bytes_)),
      space_(bytes_) {}

void* Heap::allocate(std::size_t bytes) {
  if (left_.load(std::memory_order_relaxed) || bytes > bytes_) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  const auto begin = space_.take((bytes + kPage - 1) / kPage * kPage);
  return begin ? base_.get() + *begin : nullptr;
}

void Heap::free(void* data) {
  if (left_.load(std::memory_order_relaxed)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  space_.give_back(
      static_cast<std::size_t>(static_cast<std::byte*>(data) - base_.get()));
  drop_idle_pages();
}

// With mutex_ held. Used and idle pages together stay below the most that was
// in use at once, plus kSlack, so that not every free() makes a system call.
void Heap::drop_idle_pages() {
  const std::size_t keep = space_.most_used() - space_.used();
  if (space_.idle() <= keep + kSlack) {
    return;
  }
  for (const Range& range : space_.drop_pages(keep)) {
    ::madvise(
        base_.get() + range.begin,
        range.bytes,
        // MADV_DONTNEED would only unmap pages of a memfd, not free them.
        shared_ ? MADV_REMOVE : MADV_DONTNEED);
  }
}

std::string Heap::description() const {
  ARGOSY_ASSERT(shared_.has_value());
  return str_format(
      "{} {} {}",
      shared_->description(),
      reinterpret_cast<std::uintptr_t>(base_.get()),
      bytes_);
}

Heap* shared_heap() {
  return place_of_shared_heap().load(std::memory_order_acquire);
}

Heap* make_process_heap(Sharing sharing) {
  if (sharing == Sharing::Shared) {
    static Heap* const shared = make_shared_heap();
    return shared;
  }
  static Heap* const own = make_heap(Sharing::Private);
  return own;
}

} // namespace argosy::heap
