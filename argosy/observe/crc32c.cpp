#include "argosy/observe/crc32c.h"

#include <array>

namespace argosy::observe {

namespace {

// The CRC of each byte value, computed by the compiler. One byte per lookup is
// fast enough for event files, whose records are short.
constexpr std::array<std::uint32_t, 256> make_table() {
  // Castagnoli's polynomial, not that of zlib: event files require it.
  constexpr std::uint32_t kPolynomial = 0x82f63b78; // reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    }
    table[byte] = rest;
  }
  return table;
}

constexpr auto kTable = make_table();

} // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

} // namespace argosy::observe
