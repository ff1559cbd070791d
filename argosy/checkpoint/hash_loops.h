#pragma once

// Include the file of the instruction set before this one. XXH_INLINE_ALL makes
// all of XXH3 static here, for the vectors that the compiler may use; of 512
// bits it gains nothing, and GCC 12 warns of its own header.
#define XXH_INLINE_ALL
#ifdef __AVX512F__
#define XXH_VECTOR XXH_AVX2
#endif
#include <xxhash.h>

#include "argosy/checkpoint/hash_kernels.h"

namespace argosy::checkpoint {
namespace {

inline simd::Quads load_quads(const void* from) {
  return simd::load<simd::Quads>(static_cast<const simd::Byte*>(from));
}

constexpr std::size_t kPairsOfVector = sizeof(simd::Quads) / 8;

// A pair of words times their keys: the products of words and the halves of
// keys are summed apart, and the upper ones shifted at the end.
struct LaneSum {
  simd::Quads lower{};
  simd::Quads upper{};

  inline void add(
      const RowKeys& keys,
      std::size_t lane,
      std::size_t pair,
      simd::Quads even,
      simd::Quads odd) {
    using simd::multiply_lower;
    lower += multiply_lower(even, load_quads(&keys.even[lane][pair]));
    lower += multiply_lower(odd, load_quads(&keys.odd[lane][pair]));
    upper += multiply_lower(even, load_quads(&keys.even_upper[lane][pair]));
    upper += multiply_lower(odd, load_quads(&keys.odd_upper[lane][pair]));
  }

  inline std::uint64_t total() const {
    const simd::Quads both = lower + (upper << 32);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kPairsOfVector; ++i) {
      sum += both[i];
    }
    return sum;
  }
};

void sum_pairs(
    const RowKeys& keys,
    std::size_t first,
    const unsigned char* data,
    std::size_t count,
    std::uint64_t* sums) {
  LaneSum lanes[kLanes];
  std::size_t pair = first;
  const std::size_t end = first + count;
  for (; pair + kPairsOfVector <= end; pair += kPairsOfVector) {
    const simd::Quads words = load_quads(data);
    data += sizeof(simd::Quads);
    const simd::Quads odd = words >> 32;
    lanes[0].add(keys, 0, pair, words, odd);
    lanes[1].add(keys, 1, pair, words, odd);
  }
  sums[0] += lanes[0].total();
  sums[1] += lanes[1].total();
  for (; pair < end; ++pair) {
    const auto words = simd::load<std::uint64_t>(data);
    data += 8;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += (words & 0xffffffff) * keys.even[lane][pair] +
          (words >> 32) * keys.odd[lane][pair];
    }
  }
}

void hash_with_xxh3(
    const unsigned char* data, std::size_t bytes, std::uint64_t* out) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  out[0] = hash.low64;
  out[1] = hash.high64;
}

static_assert(sizeof(XXH3_state_t) <= kHashStateBytes);

void begin_xxh3(void* state) {
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state));
}

void continue_xxh3(void* state, const unsigned char* data, std::size_t bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), data, bytes);
}

void end_xxh3(const void* state, std::uint64_t* out) {
  const XXH128_hash_t hash =
      XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state));
  out[0] = hash.low64;
  out[1] = hash.high64;
}

constexpr HashKernels make_hash_kernels() {
  return {sum_pairs, hash_with_xxh3, begin_xxh3, continue_xxh3, end_xxh3};
}

} // namespace
} // namespace argosy::checkpoint
