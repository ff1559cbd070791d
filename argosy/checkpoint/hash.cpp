#include "argosy/checkpoint/hash.h"

#include <array>

#include "argosy/checkpoint/hash_kernels.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

const HashKernels& hash_kernels(simd::Isa isa) {
  switch (isa) {
    case simd::Isa::Baseline:
      return kBaselineHashKernels;
    case simd::Isa::Avx2:
      return kAvx2HashKernels;
    case simd::Isa::Avx512:
      return kAvx512HashKernels;
  }
  return kBaselineHashKernels;
}

namespace {

void append_hex(std::string& text, std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) {
    text += kDigits[value >> shift & 15];
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

} // namespace

std::string to_hex(const Hash128& hash) {
  std::string text;
  append_hex(text, hash.high);
  append_hex(text, hash.low);
  return text;
}

Hash128 hash_of_hex(std::string_view hex) {
  std::array<std::uint64_t, 2> halves = {0, 0};
  bool valid = hex.size() == 32;
  for (std::size_t i = 0; valid && i < 32; ++i) {
    const int digit = hex_digit(hex[i]);
    valid = digit >= 0;
    halves[i / 16] = halves[i / 16] << 4 | static_cast<std::uint64_t>(digit);
  }
  if (!valid) {
    throw CheckpointError(
        str("[checkpoint.hash] \"",
            hex.substr(0, 40),
            "\" is no hash, expected 32 digits of 0-9 and a-f"));
  }
  return {.low = halves[1], .high = halves[0]};
}

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  std::uint64_t halves[2];
  hash_kernels(simd::current_isa())
      .hash_bytes(
          reinterpret_cast<const unsigned char*>(bytes.data()),
          bytes.size(),
          halves);
  return {halves[0], halves[1]};
}

BytesHash::BytesHash() {
  static_assert(sizeof(state_) == kHashStateBytes);
  hash_kernels(simd::current_isa()).begin_hash(state_);
}

void BytesHash::add(std::span<const std::byte> bytes) {
  hash_kernels(simd::current_isa())
      .continue_hash(
          state_,
          reinterpret_cast<const unsigned char*>(bytes.data()),
          bytes.size());
}

Hash128 BytesHash::result() const {
  std::uint64_t halves[2];
  hash_kernels(simd::current_isa()).end_hash(state_, halves);
  return {halves[0], halves[1]};
}

} // namespace argosy::checkpoint
