#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <vector>

namespace argosy::optim {

// The position of one tensor in a flat buffer, in elements.
struct FlatSlot {
  std::int64_t begin = 0;
  std::int64_t numel = 0;

  std::int64_t end() const { return begin + numel; }
  bool operator==(const FlatSlot&) const = default;
};

// The positions of a list of tensors in one flat buffer. Slots are in the order
// of the list, do not overlap, and begin at multiples of `alignment` bytes.
struct FlatLayout {
  std::vector<FlatSlot> slots;
  std::int64_t numel = 0; // of the buffer, including gaps between slots
  std::size_t element_bytes = 0;
  std::size_t alignment = 0;

  bool operator==(const FlatLayout&) const = default;
};

// "4 tensors in 96 elements of 4 bytes: [0, 10) [16, 17) ..."
std::ostream& operator<<(std::ostream& out, const FlatLayout& layout);

inline constexpr std::size_t kCacheLine = 64;

// Lays out tensors of `numels` elements. The end of the buffer is aligned too.
// Throws InvalidArgument if `alignment` is not a multiple of `element_bytes`,
// or if a number is negative.
FlatLayout plan_flat(
    const std::vector<std::int64_t>& numels,
    std::size_t element_bytes,
    std::size_t alignment = kCacheLine);

} // namespace argosy::optim
