#include "argosy/checkpoint/import/utf8.h"

#include <cstddef>
#include <cstdint>

namespace argosy::checkpoint {

namespace {

// Length of the form that begins with this byte; 0 for none.
std::size_t utf8_length(std::uint8_t first) {
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xc2 && first <= 0xdf) {
    return 2;
  }
  if (first >= 0xe0 && first <= 0xef) {
    return 3;
  }
  return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

bool is_character(std::uint32_t code, std::size_t length) {
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kLeast[length] && code <= 0x10ffff &&
      (code < 0xd800 || code > 0xdfff);
}

} // namespace

bool is_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const auto first = static_cast<std::uint8_t>(bytes[i]);
    const std::size_t length = utf8_length(first);
    if (length == 0 || length > bytes.size() - i) {
      return false;
    }
    std::uint32_t code = length == 1 ? first : first & (0x7fu >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<std::uint8_t>(bytes[i + k]);
      if ((next & 0xc0) != 0x80) {
        return false;
      }
      code = (code << 6) | (next & 0x3fu);
    }
    if (!is_character(code, length)) {
      return false;
    }
    i += length;
  }
  return true;
}

} // namespace argosy::checkpoint
