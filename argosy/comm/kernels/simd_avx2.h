#pragma once

#include <immintrin.h>

#include "argosy/comm/kernels/simd_vector.h"

// AVX2 and F16C: 32 bytes.

namespace argosy::comm {
namespace {

constexpr size_t kVectorBytes = 32;

using Floats = VectorOf<float, 32>::Type;
using Words = VectorOf<std::int32_t, 32>::Type;
using HalfBits = VectorOf<std::uint16_t, 16>::Type;

inline Floats widen_half(HalfBits bits) {
  return (Floats)_mm256_cvtph_ps((__m128i)bits);
}

inline HalfBits narrow_half(Floats value) {
  return (HalfBits)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
}

// `to` is aligned to the vector.
inline void store_past_caches(Byte* to, const Byte* from) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), load<__m256i>(from));
}

} // namespace
} // namespace argosy::comm
