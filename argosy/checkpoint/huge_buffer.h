#pragma once

#include <cstddef>
#include <memory>

namespace argosy::checkpoint {

// Memory of huge pages where the kernel has some: fewer faults, and fewer
// segments for direct reads and writes, for which it is aligned.
class HugeBuffer {
 public:
  // Rounds up. `op`: of messages. Throws SystemError if there is no memory.
  HugeBuffer(std::size_t bytes, const char* op);

  std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
};

} // namespace argosy::checkpoint
