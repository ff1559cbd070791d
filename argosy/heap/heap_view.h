#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "argosy/heap/shared_memory.h"

namespace argosy::heap {

// A process's heap, as another process (or the same) sees it.
class HeapView {
 public:
  // From Heap::description(). The groups of a process share one view. Throws
  // SystemError when this process cannot map it.
  static std::shared_ptr<const HeapView> open(const std::string& description);

  // Where an address of the owner, which must lie in its heap, lies here.
  std::byte* at(std::uint64_t address) const {
    return memory_.get() + (address - base_);
  }

 private:
  HeapView(SharedMemory memory, std::uint64_t base);

  const SharedMemory memory_;
  const std::uint64_t base_; // of the owner's mapping
};

} // namespace argosy::heap
