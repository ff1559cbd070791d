#include "argosy/checkpoint/staging.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

Staging::~Staging() {
  if (memory_ != nullptr) {
    ::munmap(memory_, size_);
  }
}

void Staging::reset(std::size_t bytes) {
  used_ = 0;
  if (bytes <= size_) {
    return;
  }
  if (memory_ != nullptr) {
    ::munmap(memory_, size_);
    memory_ = nullptr;
    size_ = 0;
  }
  void* const memory = ::mmap(
      nullptr,
      bytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS,
      -1,
      0);
  if (memory == MAP_FAILED) {
    throw SystemError(str_format(
        "[checkpoint] no memory for a copy of {} bytes: {}; a save with a "
        "smaller budget (CheckpointOptions::staging_bytes) writes in waves",
        bytes,
        std::strerror(errno)));
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE); // fewer faults; fine without
  memory_ = static_cast<std::byte*>(memory);
  size_ = bytes;
}

std::byte* Staging::take(std::size_t bytes) {
  ARGOSY_ASSERT(used_ + bytes <= size_);
  std::byte* const taken = memory_ + used_;
  used_ += rounded(bytes);
  return taken;
}

} // namespace argosy::checkpoint
