#include "argosy/parallel/memory/keep_memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <cstdint>
#include <mutex>

#include "argosy/common/error.h"

namespace argosy {

namespace {

using parallel::BlockCache;

// Lives as long as the process: tensors do that are static.
BlockCache& cache() {
  static auto* const blocks = new BlockCache;
  return *blocks;
}

void free_small(void* memory) {
  static const c10::DeleterFnPtr free =
      c10::GetDefaultCPUAllocator()->raw_deleter();
  free(memory);
}

// Of all tensors, so that memory can be released without knowing its size.
void release(void* memory) {
  const auto place = reinterpret_cast<std::uintptr_t>(memory);
  if (memory != nullptr && place % BlockCache::kAlignment == 0 &&
      cache().give_back(memory)) {
    c10::profiledCPUMemoryReporter().Delete(memory);
    return;
  }
  free_small(memory);
}

// For what libraries that torch calls (oneDNN) ask of malloc themselves.
void keep_heap() {
  constexpr int kMegabyte = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, 32 * kMegabyte); // the most that it takes
  ::mallopt(M_TRIM_THRESHOLD, 256 * kMegabyte);
}

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    if (bytes < BlockCache::kLeast) {
      void* const small = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
      return {small, small, &release, c10::Device(c10::kCPU)};
    }
    void* const block = cache().take(bytes);
    if (block == nullptr) {
      throw SystemError(
          str("[parallel.memory] the system has no ",
              bytes,
              " bytes for a tensor"));
    }
    c10::profiledCPUMemoryReporter().New(block, bytes);
    return {block, block, &release, c10::Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }
};

} // namespace

void keep_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator()) {
      keep_heap();
      c10::SetCPUAllocator(new KeepingAllocator);
    }
  });
}

BlockCache::Stats kept_memory() {
  return cache().stats();
}

} // namespace argosy
