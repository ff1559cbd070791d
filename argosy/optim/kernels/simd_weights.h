#pragma once

#include "argosy/comm/kernels/simd_vector.h"
#include "argosy/optim/kernels/tile.h"

// How weights and gradients are read and written, a vector of floats (or
// doubles) at a time. The file of the instruction set comes before this one;
// like those, this one is compiled once for each, in an anonymous namespace.

namespace argosy::optim {
namespace {

using namespace comm;

template <typename T>
using Lanes = typename VectorOf<T, kVectorBytes>::Type;

// ---- Elements in memory -----------------------------------------------------

template <typename T>
struct Same {
  using Lane = T;
  static constexpr size_t kBytes = sizeof(T); // of an element
  static Lanes<T> read(const Byte* from) { return load<Lanes<T>>(from); }
  static void write(Byte* to, Lanes<T> value) { store(to, value); }
};

struct HalfWide {
  using Lane = float;
  static constexpr size_t kBytes = 2;
  static Floats read(const Byte* from) {
    return widen_half(load<HalfBits>(from));
  }
  static void write(Byte* to, Floats value) { store(to, narrow_half(value)); }
};

// A bfloat16 is the upper half of a float.
struct BrainWide {
  using Lane = float;
  using Unsigned = VectorOf<std::uint32_t, kVectorBytes>::Type;
  static constexpr size_t kBytes = 2;

  static Floats read(const Byte* from) {
    const auto bits = load<HalfBits>(from);
    return (Floats)(__builtin_convertvector(bits, Unsigned) << 16);
  }

  // To nearest, or even; a NaN stays one, and becomes quiet.
  static void write(Byte* to, Floats value) {
    const auto bits = (Unsigned)value;
    const Unsigned rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const Unsigned kept = value != value ? bits | 0x00400000 : rounded;
    store(to, __builtin_convertvector(kept >> 16, HalfBits));
  }
};

// ---- Where the weight is ----------------------------------------------------

// In the parameter.
template <typename ElementType>
struct InParam {
  using Element = ElementType;
  using Lane = typename Element::Lane;

  static Lanes<Lane> read(const Tile& tile, size_t at) {
    return Element::read(
        static_cast<const Byte*>(tile.param) + at * Element::kBytes);
  }
  static void write(const Tile& tile, size_t at, Lanes<Lane> value) {
    Element::write(
        static_cast<Byte*>(tile.param) + at * Element::kBytes, value);
  }
};

// In the master, of which the parameter is a rounded copy. Where it is not,
// somebody else has written to the parameter, and that counts.
template <typename ElementType>
struct InMaster {
  using Element = ElementType;
  using Lane = float;

  static Floats read(const Tile& tile, size_t at) {
    const Floats param = InParam<Element>::read(tile, at);
    const auto* master = static_cast<const Byte*>(tile.master);
    const auto exact = load<Floats>(master + at * sizeof(float));
    Byte rounded[kVectorBytes / 2];
    Element::write(rounded, exact);
    const Words same = (Words)Element::read(rounded) == (Words)param;
    return same ? exact : param;
  }
  static void write(const Tile& tile, size_t at, Floats value) {
    store(static_cast<Byte*>(tile.master) + at * sizeof(float), value);
    InParam<Element>::write(tile, at, value);
  }
};

// ---- Sums of squares --------------------------------------------------------

// In double, so that squares of finite floats neither overflow nor get lost.
template <typename T>
class SquareSum;

template <>
class SquareSum<double> {
 public:
  void add(Lanes<double> value) { sum_ += value * value; }

  double total() const {
    double total = 0;
    for (size_t i = 0; i < kVectorBytes / sizeof(double); ++i) {
      total += sum_[i];
    }
    return total;
  }

 private:
  Lanes<double> sum_{};
};

template <>
class SquareSum<float> {
 public:
  void add(Floats value) {
    typedef VectorOf<float, kVectorBytes / 2>::Type HalfFloats;
    const auto low = load<HalfFloats>(reinterpret_cast<const Byte*>(&value));
    const auto high = load<HalfFloats>(
        reinterpret_cast<const Byte*>(&value) + kVectorBytes / 2);
    low_.add(__builtin_convertvector(low, Lanes<double>));
    high_.add(__builtin_convertvector(high, Lanes<double>));
  }

  double total() const { return low_.total() + high_.total(); }

 private:
  SquareSum<double> low_;
  SquareSum<double> high_;
};

} // namespace
} // namespace argosy::optim
