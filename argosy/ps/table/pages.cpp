#include "argosy/ps/table/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/ps/table/page_feeder.h"

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
  const auto pause = feeder_ != nullptr ? feeder_->forget(data_, data_ + size_)
                                        : PageFeeder::Pause();
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      feeder_(std::exchange(other.feeder_, nullptr)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(feeder_, other.feeder_);
  return *this;
}

void Pages::want_huge_pages(std::size_t begin, std::size_t end) {
  const std::size_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::size_t last = std::min(end, size_);
  if (first < last) {
    ::madvise(data_ + first, last - first, MADV_HUGEPAGE);
  }
}

void Pages::feed(
    const std::shared_ptr<PageFeeder>& feeder,
    std::size_t begin,
    std::size_t end) {
  const std::size_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::size_t last = std::min(end, size_) / kHugePage * kHugePage;
  if (feeder != nullptr && first < last) {
    feeder_ = feeder;
    feeder->want(data_ + first, data_ + last);
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
