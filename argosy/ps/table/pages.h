#pragma once

#include <cstddef>

namespace argosy::ps {

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

  // Asks for huge pages from `offset` on. Without them it works as well,
  // slower.
  void want_huge_pages(std::size_t offset = 0);

  // Gives what lies between two offsets back to the kernel, as far as whole
  // huge pages go; it reads as zeros afterwards. Returns the new end of what
  // was given back.
  std::size_t release(std::size_t begin, std::size_t end);

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

inline constexpr std::size_t kHugePage = 2u << 20;

// Below this much memory huge pages would waste more than they gain.
inline constexpr std::size_t kHugePagesFrom = 8 * kHugePage;

} // namespace argosy::ps
