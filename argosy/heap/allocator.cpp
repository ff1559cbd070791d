#include "argosy/heap/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "argosy/heap/heap.h"
#include "argosy/torch_hooks/allocator.h"

namespace argosy {

namespace {

using heap::Heap;
using heap::Sharing;

// Smaller tensors are copied when they are sent, malloc reuses their memory
// well, and each would take whole pages here.
constexpr std::size_t kLeastBytes = std::size_t{32} << 10;

// The heaps that tensors may be in, and the one that new tensors come from.
class TensorHeaps {
 public:
  void use(Heap* heap, Sharing sharing) {
    heaps_[static_cast<std::size_t>(sharing)] = heap;
    // Once shared, stays shared.
    if (sharing == Sharing::Shared || current_ == nullptr) {
      current_ = heap;
    }
  }
  Heap* current() const { return current_; }
  Heap* heap_of(const void* data) const {
    for (const auto& heap : heaps_) {
      Heap* const candidate = heap;
      if (candidate != nullptr && candidate->contains(data)) {
        return candidate;
      }
    }
    return nullptr;
  }

 private:
  std::array<std::atomic<Heap*>, 2> heaps_ = {nullptr, nullptr};
  std::atomic<Heap*> current_{nullptr};
};

TensorHeaps& tensor_heaps() {
  static TensorHeaps heaps;
  return heaps;
}

// Frees tensors of any origin: the raw interface passes only the address.
void free_tensor(void* data) {
  Heap* const heap = tensor_heaps().heap_of(data);
  if (heap == nullptr) {
    c10::GetDefaultCPUAllocator()->raw_deallocate(data);
    return;
  }
  c10::profiledCPUMemoryReporter().Delete(data);
  heap->free(data);
}

class HeapAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    if (bytes >= kLeastBytes) {
      if (void* data = tensor_heaps().current()->allocate(bytes)) {
        c10::profiledCPUMemoryReporter().New(data, bytes);
        return {data, data, &free_tensor, c10::Device(c10::DeviceType::CPU)};
      }
    }
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_tensor; }
};

bool use_heap(Sharing sharing) {
  Heap* const heap = heap::make_process_heap(sharing);
  if (heap == nullptr) {
    return false;
  }
  // Before the allocator is installed: its allocate() needs a current heap.
  tensor_heaps().use(heap, sharing);
  static HeapAllocator allocator;
  if (!torch_hooks::install_allocator(allocator)) {
    return false;
  }
  torch_hooks::install_malloc_limits();
  return true;
}

} // namespace

void keep_tensor_memory() {
  static const bool kept =
      tensor_heaps().current() != nullptr || use_heap(Sharing::Private);
  (void)kept;
}

bool share_tensor_memory() {
  static const bool shared = use_heap(Sharing::Shared);
  return shared;
}

} // namespace argosy
