#include "argosy/checkpoint/huge_buffer.h"

#include <sys/mman.h>

#include <cstdlib>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

} // namespace

void HugeBuffer::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

HugeBuffer::HugeBuffer(std::size_t bytes, const char* op)
    : memory_(static_cast<std::byte*>(
          std::aligned_alloc(kHugePage, rounded(bytes)))) {
  if (memory_ == nullptr) {
    throw SystemError(
        str_format("[checkpoint.{}] no memory for {} bytes", op, bytes));
  }
  ::madvise(memory_.get(), rounded(bytes), MADV_HUGEPAGE); // fine without
}

} // namespace argosy::checkpoint
