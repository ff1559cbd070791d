#pragma once

#include <emmintrin.h>

#include "argosy/simd/vector.h"

// SSE2: 16 bytes, and float16 converted by integer arithmetic.

namespace argosy::simd {
namespace {

constexpr size_t kVectorBytes = 16;

using Floats = VectorOf<float, 16>::Type;
using Doubles = VectorOf<double, 16>::Type;
using Quads = VectorOf<std::uint64_t, 16>::Type;
using Words = VectorOf<std::int32_t, 16>::Type;
using HalfBits = VectorOf<std::uint16_t, 8>::Type;

inline Words widen_words(HalfBits bits) {
  const __m128i low = _mm_cvtsi64_si128((long long)bits);
  return (Words)_mm_unpacklo_epi16(low, _mm_setzero_si128());
}

// Drops the upper half of each. SSE2 packs with signed saturation only, which
// leaves alone what is the extension of 16 bits.
inline HalfBits narrow_words(Words words) {
  const __m128i extended = (__m128i)((words << 16) >> 16);
  const __m128i packed = _mm_packs_epi32(extended, extended);
  return (HalfBits)_mm_cvtsi128_si64(packed);
}

// A float16 is sign, 5 bits of exponent, 10 of fraction. Shifted by 13, its
// fraction is where a float's is, and its exponent is 112 too low.
inline Floats widen_half(HalfBits bits) {
  const Words half = widen_words(bits);
  const Words shifted = (half & 0x7fff) << 13;
  const Words normal = shifted + (112 << 23);
  // Inf and NaN: the highest exponent of both formats; a NaN becomes quiet, as
  // the processor's own conversion makes it.
  const Words quiet = (shifted > 0x0f800000) & 0x00400000;
  const Words special = (normal + (112 << 23)) | quiet;
  // Subnormal: give it the implicit bit that it lacks, and subtract its value.
  const Words implicit = Words{} + (113 << 23);
  const Words small = (Words)((Floats)(shifted + implicit) - (Floats)implicit);

  Words result = shifted < 0x00800000 ? small : normal;
  result = shifted >= 0x0f800000 ? special : result;
  return (Floats)(result | ((half & 0x8000) << 16));
}

// Rounds to nearest even; a NaN stays one and becomes quiet.
inline HalfBits narrow_half(Floats value) {
  const Words bits = (Words)value;
  const Words magnitude = bits & 0x7fffffff;
  const Words odd = (magnitude >> 13) & 1;
  const Words normal = (magnitude - (112 << 23) + 0xfff + odd) >> 13;
  // The last bit of 0.5f weighs 2^-24, as that of a subnormal float16 does, so
  // the addition rounds to it.
  const Words half = Words{} + 0x3f000000;
  const Words small = (Words)((Floats)magnitude + (Floats)half) - half;
  const Words nan = ((magnitude >> 13) & 0x3ff) | 0x7e00;

  Words result = magnitude < 0x38800000 ? small : normal;
  result = magnitude >= 0x47800000 ? Words{} + 0x7c00 : result;
  result = magnitude > 0x7f800000 ? nan : result;
  result |= (bits >> 16) & 0x8000;
  return narrow_words(result);
}

inline Floats square_root(Floats value) {
  return (Floats)_mm_sqrt_ps((__m128)value);
}

inline Doubles square_root(Doubles value) {
  return (Doubles)_mm_sqrt_pd((__m128d)value);
}

// The products of the lower 32 bits of each.
inline Quads multiply_lower(Quads a, Quads b) {
  return (Quads)_mm_mul_epu32((__m128i)a, (__m128i)b);
}

// `to` is aligned to the vector.
inline void store_past_caches(Byte* to, const Byte* from) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), load<__m128i>(from));
}

} // namespace
} // namespace argosy::simd
