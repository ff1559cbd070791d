#pragma once

#include <immintrin.h>

#include "argosy/simd/vector.h"

// AVX2 and F16C: 32 bytes.

namespace argosy::simd {
namespace {

constexpr size_t kVectorBytes = 32;

using Floats = VectorOf<float, 32>::Type;
using Doubles = VectorOf<double, 32>::Type;
using Quads = VectorOf<std::uint64_t, 32>::Type;
using Words = VectorOf<std::int32_t, 32>::Type;
using HalfBits = VectorOf<std::uint16_t, 16>::Type;

inline Floats widen_half(HalfBits bits) {
  return (Floats)_mm256_cvtph_ps((__m128i)bits);
}

inline HalfBits narrow_half(Floats value) {
  return (HalfBits)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
}

inline Floats square_root(Floats value) {
  return (Floats)_mm256_sqrt_ps((__m256)value);
}

inline Doubles square_root(Doubles value) {
  return (Doubles)_mm256_sqrt_pd((__m256d)value);
}

// The products of the lower 32 bits of each.
inline Quads multiply_lower(Quads a, Quads b) {
  return (Quads)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

// `to` is aligned to the vector.
inline void store_past_caches(Byte* to, const Byte* from) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), load<__m256i>(from));
}

} // namespace
} // namespace argosy::simd
