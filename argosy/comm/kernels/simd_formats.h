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
struct Half {
  using Accumulator = Floats;
  static constexpr size_t kElementBytes = 2;
  static constexpr size_t kBytes = kVectorBytes / 2;

  static Floats read(const Byte* from) {
    return widen_half(load<HalfBits>(from));
  }
  static void write(Byte* to, Floats value) { store(to, narrow_half(value)); }

  static Floats divide(Floats sum, int divisor) {
    return sum / static_cast<float>(divisor);
  }
};

// Two vectors that go through an operation together.
struct FloatsPair {
  Floats even;
  Floats odd;
};

// A bfloat16 is the upper half of a float. Elements are taken in pairs, as
// words of which one element is the lower and one the upper half: that takes no
// instruction to move elements between lanes.
struct Brain {
  using Accumulator = FloatsPair;
  static constexpr size_t kElementBytes = 2;
  static constexpr size_t kBytes = kVectorBytes;

  static FloatsPair read(const Byte* from) {
    const auto words = load<UnsignedWords>(from);
    return {(Floats)(words << 16), (Floats)(words & kUpper)};
  }

  static void write(Byte* to, FloatsPair value) {
    store(to, (round(value.even) >> 16) | (round(value.odd) & kUpper));
  }

  static FloatsPair divide(FloatsPair sum, int divisor) {
    const auto by = static_cast<float>(divisor);
    return {sum.even / by, sum.odd / by};
  }

 private:
  using UnsignedWords = VectorOf<std::uint32_t, kVectorBytes>::Type;
  static constexpr std::uint32_t kUpper = 0xffff0000;

  // The upper half is nearest, or even; a NaN stays one, and becomes quiet.
  static UnsignedWords round(Floats value) {
    const auto bits = (UnsignedWords)value;
    const UnsignedWords rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return value != value ? bits | 0x00400000 : rounded;
  }
};

} // namespace
} // namespace argosy::comm
