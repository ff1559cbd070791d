#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

// Numbers as files have them. The library runs on little-endian machines only.
namespace argosy::checkpoint {

// The number at `offset`; the caller has checked that it is there.
template <typename T>
T load_number(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T>
void append_number(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

} // namespace argosy::checkpoint
