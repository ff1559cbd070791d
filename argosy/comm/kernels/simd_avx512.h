#pragma once

#include <immintrin.h>

#include "argosy/comm/kernels/simd_vector.h"

// AVX-512: 64 bytes.

namespace argosy::comm {
namespace {

constexpr size_t kVectorBytes = 64;

using Floats = VectorOf<float, 64>::Type;
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

// `to` is aligned to the vector.
inline void store_past_caches(Byte* to, const Byte* from) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), load<__m512i>(from));
}

} // namespace
} // namespace argosy::comm
