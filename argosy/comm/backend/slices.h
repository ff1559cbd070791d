#pragma once

#include <algorithm>
#include <cstddef>

// Arithmetic on the contiguous buffers of an operation. Not installed.
namespace argosy::comm {

inline const std::byte* at(const void* base, std::size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

inline std::byte* at(void* base, std::size_t bytes) {
  return static_cast<std::byte*>(base) + bytes;
}

// For types that hold inputs and outputs alike as `void*`.
inline std::byte* writable_at(const void* base, std::size_t bytes) {
  return static_cast<std::byte*>(const_cast<void*>(base)) + bytes;
}

// Slice `index` of `count` elements cut into `parts` nearly equal ones, each
// but the last a multiple of `grain` elements.
struct Slice {
  std::size_t begin = 0;
  std::size_t count = 0;
};

constexpr Slice slice_of(
    std::size_t count, int parts, int index, std::size_t grain) {
  const std::size_t units = (count + grain - 1) / grain;
  const auto n = static_cast<std::size_t>(parts);
  const auto i = static_cast<std::size_t>(index);
  const std::size_t begin = std::min(count, units * i / n * grain);
  const std::size_t end = std::min(count, units * (i + 1) / n * grain);
  return {begin, end - begin};
}

} // namespace argosy::comm
