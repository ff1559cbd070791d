#pragma once

#include "argosy/simd/vector.h"

// Formats: how a vector's worth of elements is read from memory and written
// back. Include the file of the instruction set before this one.
//
// Each has: Vector, what elements become in registers; kElementBytes, of one
// element in memory; kBytes, of a vector's worth of them.

namespace argosy::simd {
namespace {

template <typename T>
using Lanes = typename VectorOf<T, kVectorBytes>::Type;

using UnsignedWords = Lanes<std::uint32_t>;

// Elements that stay what they are.
template <typename T>
struct Plain {
  using Lane = T;
  using Vector = Lanes<T>;
  static constexpr size_t kElementBytes = sizeof(T);
  static constexpr size_t kBytes = kVectorBytes;

  static Vector read(const Byte* from) { return load<Vector>(from); }
  static void write(Byte* to, Vector value) { store(to, value); }
};

// A float16 in memory, a float in registers.
struct Half {
  using Lane = float;
  using Vector = Floats;
  static constexpr size_t kElementBytes = 2;
  static constexpr size_t kBytes = kVectorBytes / 2;

  static Floats read(const Byte* from) {
    return widen_half(load<HalfBits>(from));
  }
  static void write(Byte* to, Floats value) { store(to, narrow_half(value)); }
};

// A bfloat16 is the upper half of a float: the nearest, or even; a NaN stays
// one, and becomes quiet. The lower half of the result is undefined.
inline UnsignedWords round_to_brain(Floats value) {
  const auto bits = (UnsignedWords)value;
  const UnsignedWords rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return value != value ? bits | 0x00400000 : rounded;
}

// A bfloat16 in memory, a float in registers.
struct Brain {
  using Lane = float;
  using Vector = Floats;
  static constexpr size_t kElementBytes = 2;
  static constexpr size_t kBytes = kVectorBytes / 2;

  static Floats read(const Byte* from) {
    const auto bits = load<HalfBits>(from);
    return (Floats)(__builtin_convertvector(bits, UnsignedWords) << 16);
  }
  static void write(Byte* to, Floats value) {
    store(to, __builtin_convertvector(round_to_brain(value) >> 16, HalfBits));
  }
};

// Two vectors that go through an operation together.
struct FloatsPair {
  Floats even;
  Floats odd;
};

// The same in pairs, as words of which one element is the lower and one the
// upper half: faster where the order of lanes does not matter, as it takes no
// instruction to move elements between them.
struct BrainPairs {
  using Vector = FloatsPair;
  static constexpr size_t kElementBytes = 2;
  static constexpr size_t kBytes = kVectorBytes;

  static FloatsPair read(const Byte* from) {
    const auto words = load<UnsignedWords>(from);
    return {(Floats)(words << 16), (Floats)(words & kUpper)};
  }
  static void write(Byte* to, FloatsPair value) {
    store(
        to,
        (round_to_brain(value.even) >> 16) |
            (round_to_brain(value.odd) & kUpper));
  }

 private:
  static constexpr std::uint32_t kUpper = 0xffff0000;
};

} // namespace
} // namespace argosy::simd
