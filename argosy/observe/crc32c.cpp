#include "argosy/observe/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace argosy::observe {

namespace {

static_assert(std::endian::native == std::endian::little);

// Eight bytes are looked up at once: table k has the CRC of a byte that k zeros
// follow.
constexpr std::size_t kAtOnce = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kAtOnce>;

// Computed by the compiler.
constexpr Tables make_tables() {
  // Castagnoli's polynomial, not that of zlib: event files require it.
  constexpr std::uint32_t kPolynomial = 0x82f63b78; // reflected
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    }
    tables[0][byte] = rest;
  }
  for (std::size_t k = 1; k < kAtOnce; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

} // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (; bytes.size() >= kAtOnce; bytes.remove_prefix(kAtOnce)) {
    std::uint64_t next = 0;
    std::memcpy(&next, bytes.data(), kAtOnce);
    next ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < kAtOnce; ++k) {
      crc ^= kTables[kAtOnce - 1 - k][(next >> (8 * k)) & 0xff];
    }
  }
  for (const char byte : bytes) {
    crc = (crc >> 8) ^
        kTables[0][(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

} // namespace argosy::observe
