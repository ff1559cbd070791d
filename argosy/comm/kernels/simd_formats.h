#pragma once

#include "argosy/comm/kernels/simd_vector.h"

// Formats: how a vector's worth of elements is read into an accumulator, and
// written back. The file of the instruction set comes before this one.

namespace argosy::comm {
namespace {

// Elements that are accumulated as what they are.
template <typename T>
struct Plain {
  using Accumulator = typename VectorOf<T, kVectorBytes>::Type;
  static constexpr size_t kElementBytes = sizeof(T);
  static constexpr size_t kBytes = kVectorBytes;

  static Accumulator read(const Byte* from) { return load<Accumulator>(from); }
  static void write(Byte* to, Accumulator value) { store(to, value); }

  static Accumulator divide(Accumulator sum, int divisor) {
    return sum / static_cast<T>(divisor);
  }
};

// Integers, summed without sign since those wrap; T decides how they divide.
template <typename T, typename Unsigned>
struct Integers : Plain<Unsigned> {
  using typename Plain<Unsigned>::Accumulator;

  // No instruction set divides integers by vectors.
  static Accumulator divide(Accumulator sum, int divisor) {
    for (size_t i = 0; i < kVectorBytes / sizeof(T); ++i) {
      const auto lane = static_cast<T>(sum[i]);
      sum[i] = static_cast<Unsigned>(lane / divisor);
    }
    return sum;
  }
};

// Counted in pairs of a real and an imaginary part.
template <typename T>
struct Complex : Plain<T> {
  static constexpr size_t kElementBytes = 2 * sizeof(T);
};

// Two bytes in memory, floats when accumulated.
struct Widened {
  using Accumulator = Floats;
  static constexpr size_t kElementBytes = 2;
  static constexpr size_t kBytes = kVectorBytes / 2;

  static Floats divide(Floats sum, int divisor) {
    return sum / static_cast<float>(divisor);
  }
};

struct Half : Widened {
  static Floats read(const Byte* from) {
    return widen_half(load<HalfBits>(from));
  }
  static void write(Byte* to, Floats value) { store(to, narrow_half(value)); }
};

// The upper half of a float.
struct Brain : Widened {
  static Floats read(const Byte* from) {
    return (Floats)(widen_words(load<HalfBits>(from)) << 16);
  }

  // Rounds to nearest even; a NaN stays one, and becomes quiet.
  static void write(Byte* to, Floats value) {
    const Words bits = (Words)value;
    const Words rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const Words result = value != value ? bits | 0x00400000 : rounded;
    store(to, narrow_words(result >> 16));
  }
};

} // namespace
} // namespace argosy::comm
