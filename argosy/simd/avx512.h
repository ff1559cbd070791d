#pragma once

#include <immintrin.h>

#include "argosy/simd/vector.h"

// AVX-512: 64 bytes.

namespace argosy::simd {
namespace {

constexpr size_t kVectorBytes = 64;

using Floats = VectorOf<float, 64>::Type;
using Doubles = VectorOf<double, 64>::Type;
using Quads = VectorOf<std::uint64_t, 64>::Type;
using Words = VectorOf<std::int32_t, 64>::Type;
using HalfBits = VectorOf<std::uint16_t, 32>::Type;

// The forms with a mask, of all lanes: GCC 12 warns of uninitialised values in
// its own definition of the others.
constexpr __mmask16 kAllLanes = 0xffff;

inline Floats widen_half(HalfBits bits) {
  return (Floats)_mm512_maskz_cvtph_ps(kAllLanes, (__m256i)bits);
}

inline HalfBits narrow_half(Floats value) {
  return (HalfBits)_mm512_maskz_cvtps_ph(
      kAllLanes, (__m512)value, _MM_FROUND_TO_NEAREST_INT);
}

inline Floats square_root(Floats value) {
  return (Floats)_mm512_maskz_sqrt_ps(kAllLanes, (__m512)value);
}

inline Doubles square_root(Doubles value) {
  return (Doubles)_mm512_maskz_sqrt_pd(0xff, (__m512d)value);
}

// The products of the lower 32 bits of each.
inline Quads multiply_lower(Quads a, Quads b) {
  return (Quads)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
}

// `to` is aligned to the vector.
inline void store_past_caches(Byte* to, const Byte* from) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), load<__m512i>(from));
}

} // namespace
} // namespace argosy::simd
