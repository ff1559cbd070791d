#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>

namespace argosy::ps {

class PageFeeder;

// Zeroed memory straight from the kernel, which takes pages as they are touched
// and gives huge ones where asked. Move-only.
class Pages {
 public:
  Pages() = default;
  // Throws SystemError if the kernel has no such range.
  explicit Pages(std::size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Asks for huge pages between two offsets. Without them it works as well,
  // slower.
  void want_huge_pages(
      std::size_t begin = 0,
      std::size_t end = std::numeric_limits<std::size_t>::max());

  // Has `feeder`, which may be null, back what lies between two offsets before
  // it is touched. Not beyond the end.
  void feed(
      const std::shared_ptr<PageFeeder>& feeder,
      std::size_t begin,
      std::size_t end);

  // Gives what lies between two offsets back to the kernel, as far as whole
  // huge pages go; it reads as zeros afterwards. Returns the new end of what
  // was given back.
  std::size_t release(std::size_t begin, std::size_t end);

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<PageFeeder> feeder_; // if it may be at work here
};

inline constexpr std::size_t kHugePage = 2u << 20;

// Below this much memory huge pages would waste more than they gain.
inline constexpr std::size_t kHugePagesFrom = 8 * kHugePage;

// How far ahead of use a PageFeeder should work in a range of which so much is
// in use, or soon will be.
inline std::size_t fed_ahead(std::size_t used) {
  return std::clamp(used / 8, kHugePage, 8 * kHugePage);
}

} // namespace argosy::ps
