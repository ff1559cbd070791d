#include "argosy/ps/table/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

// Maps `bytes`, aligned to huge pages: maps more, and cuts off both ends.
std::byte* map_aligned(std::size_t bytes) {
  const std::size_t all = bytes + kHugePage;
  void* const memory = ::mmap(
      nullptr,
      all,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0);
  if (memory == MAP_FAILED) {
    throw SystemError(with_errno(
        str("[ps.table] cannot map ", bytes, " bytes of memory for rows")));
  }
  auto* const begin = static_cast<std::byte*>(memory);
  const auto past = reinterpret_cast<std::uintptr_t>(begin) % kHugePage;
  const std::size_t before = past == 0 ? 0 : kHugePage - past;
  if (before > 0) {
    ::munmap(begin, before);
  }
  constexpr std::size_t kSmallPage = 4096;
  const std::size_t kept = (bytes + kSmallPage - 1) / kSmallPage * kSmallPage;
  ::munmap(begin + before + kept, all - before - kept);
  return begin + before;
}

} // namespace

Pages::Pages(std::size_t bytes) : data_(map_aligned(bytes)), size_(bytes) {}

Pages::~Pages() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void Pages::want_huge_pages(std::size_t offset) {
  const std::size_t first = (offset + kHugePage - 1) / kHugePage * kHugePage;
  if (first < size_) {
    ::madvise(data_ + first, size_ - first, MADV_HUGEPAGE);
  }
}

std::size_t Pages::release(std::size_t begin, std::size_t end) {
  const std::size_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::size_t last = end / kHugePage * kHugePage;
  if (last <= first) {
    return begin;
  }
  ::madvise(data_ + first, last - first, MADV_DONTNEED);
  return last;
}

} // namespace argosy::ps
