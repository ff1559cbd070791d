#pragma once

#include <cstddef>

namespace argosy::comm {

inline const std::byte* at(const void* base, std::size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

inline std::byte* at(void* base, std::size_t bytes) {
  return static_cast<std::byte*>(base) + bytes;
}

// For types that describe inputs and outputs alike and hold `void*` for both.
inline std::byte* writable_at(const void* base, std::size_t bytes) {
  return static_cast<std::byte*>(const_cast<void*>(base)) + bytes;
}

} // namespace argosy::comm
