#include "argosy/torch_hooks/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/hook.h"

namespace argosy::torch_hooks {

namespace {

// False where the program has set one of a higher priority.
bool set_allocator(c10::Allocator& allocator) {
  c10::SetCPUAllocator(&allocator);
  return c10::GetCPUAllocator() == &allocator;
}

} // namespace

bool install_allocator(c10::Allocator& allocator) {
  return install(Hook::kAllocator, [&] {
    // An allocator that the program chose itself is left in place.
    return c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator() &&
        set_allocator(allocator);
  });
}

void install_malloc_limits() {
  install(Hook::kMalloc, [] {
    constexpr int kMegabyte = 1 << 20;
    // 32 MB is the most that malloc takes here.
    // Above the first threshold, each block is a mapping of its own, which
    // free() unmaps and the next malloc() faults in again, page by page.
    return ::mallopt(M_MMAP_THRESHOLD, 32 * kMegabyte) != 0 &&
        ::mallopt(M_TRIM_THRESHOLD, 256 * kMegabyte) != 0;
  });
}

void install_tensor_meter(
    c10::Allocator& meter,
    const std::function<void(c10::Allocator*)>& set_inner) {
  require(Hook::kTensorMeter, "TensorMemory", [&] {
    c10::Allocator* const before = c10::GetCPUAllocator();
    const bool can_be_counted = before->raw_deleter() != nullptr;
    if (can_be_counted) {
      // Before the meter becomes visible: other threads may allocate at once.
      set_inner(before);
    }
    ARGOSY_CHECK(
        can_be_counted && set_allocator(meter),
        "[observe.tensor_memory] the program's CPU allocator cannot be "
        "counted, expected one with raw_deleter() and of priority 0");
  });
}

} // namespace argosy::torch_hooks
