#include "argosy/heap/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>

#include "argosy/heap/heap.h"

namespace argosy {

namespace {

// Smaller ones go through windows, and should not each take whole pages.
constexpr std::size_t kLeastBytes = std::size_t{32} << 10;

c10::Allocator*& allocator_before() {
  static c10::Allocator* allocator = nullptr;
  return allocator;
}

void free_shared(void* data) {
  heap::process_heap()->free(data);
}

// Of either kind.
void free_any(void* data) {
  if (heap::process_heap()->contains(data)) {
    free_shared(data);
  } else {
    allocator_before()->raw_deallocate(data);
  }
}

class HeapAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    if (bytes >= kLeastBytes) {
      if (void* data = heap::process_heap()->allocate(bytes)) {
        return {data, data, &free_shared, c10::Device(c10::DeviceType::CPU)};
      }
    }
    return allocator_before()->allocate(bytes);
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }
};

bool install() {
  if (!heap::make_process_heap()) {
    return false;
  }
  static HeapAllocator allocator;
  allocator_before() = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
  return c10::GetCPUAllocator() == &allocator;
}

} // namespace

bool share_tensor_memory() {
  static const bool installed = install();
  return installed;
}

} // namespace argosy
