#pragma once

#include <utility>

#include "argosy/simd/vector.h"

// What makes one accumulator of two: `so_far` and the next input.

namespace argosy::comm {
namespace {

using namespace simd;

struct Add {
  template <typename V>
  static V apply(V so_far, V next) {
    return so_far + next;
  }
};

struct Multiply {
  template <typename V>
  static V apply(V so_far, V next) {
    return so_far * next;
  }
};

// The comparison with itself is for NaN, and the compiler drops it for
// integers.
struct Larger {
  template <typename V>
  static V apply(V so_far, V next) {
    return ((so_far >= next) | (so_far != so_far)) ? so_far : next;
  }
};

struct Smaller {
  template <typename V>
  static V apply(V so_far, V next) {
    return ((so_far <= next) | (so_far != so_far)) ? so_far : next;
  }
};

struct And {
  template <typename V>
  static V apply(V so_far, V next) {
    return so_far & next;
  }
};

struct Or {
  template <typename V>
  static V apply(V so_far, V next) {
    return so_far | next;
  }
};

struct Xor {
  template <typename V>
  static V apply(V so_far, V next) {
    return so_far ^ next;
  }
};

// Real and imaginary parts alternate: (a, b)(c, d) = (ac - bd, ad + bc), made
// of (ac, ad) and (bd, bc). The minus is a flipped sign, since GCC turns lanes
// that alternate between - and + into a fused instruction, whatever
// -ffp-contract.
struct ComplexMultiply {
  template <typename V>
  static V apply(V so_far, V next) {
    using Bits = decltype(so_far == next);
    constexpr size_t kLanes = sizeof(V) / sizeof(next[0]);
    return multiply<V, Bits>(so_far, next, std::make_index_sequence<kLanes>());
  }

  template <typename V, typename Bits, size_t... kLane>
  static V multiply(V so_far, V next, std::index_sequence<kLane...>) {
    const V real = __builtin_shufflevector(so_far, so_far, (kLane & ~1)...);
    const V imaginary = __builtin_shufflevector(so_far, so_far, (kLane | 1)...);
    const V swapped = __builtin_shufflevector(next, next, (kLane ^ 1)...);
    const V minus = {(kLane % 2 == 0 ? -0.0f : 0.0f)...};
    const V cross = (V)((Bits)(imaginary * swapped) ^ (Bits)minus);
    return real * next + cross;
  }
};

} // namespace
} // namespace argosy::comm
