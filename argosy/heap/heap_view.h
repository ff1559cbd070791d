#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "argosy/heap/shared_memory.h"

namespace argosy::heap {

// Another process's heap (or this one's), mapped into this process.
class HeapView {
 public:
  // Maps the heap with this Heap::description(). Views are shared within the
  // process. Throws SystemError when it cannot be mapped.
  static std::shared_ptr<const HeapView> open(const std::string& description);

  // Translates an address in the owner's heap to an address here.
  std::byte* at(std::uint64_t address) const {
    return memory_.get() + (address - base_);
  }

 private:
  HeapView(SharedMemory memory, std::uint64_t base);

  const SharedMemory memory_;
  const std::uint64_t base_; // start of the owner's mapping
};

} // namespace argosy::heap
