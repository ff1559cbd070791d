#pragma once

#include "argosy/optim/kernels/tile.h"
#include "argosy/simd/formats.h"

// How weights are read and written, a vector of floats (or doubles) at a time.
// Compiled once for each instruction set, in anonymous namespaces: see
// simd/vector.h.

namespace argosy::optim {
namespace {

using namespace simd;

// ---- Where the weight is ----------------------------------------------------

// In the parameter.
template <typename ElementType>
struct InParam {
  using Element = ElementType;
  using Lane = typename Element::Lane;

  static Lanes<Lane> read(const Tile& tile, size_t at) {
    return Element::read(
        static_cast<const Byte*>(tile.param) + at * Element::kElementBytes);
  }
  static void write(const Tile& tile, size_t at, Lanes<Lane> value) {
    Element::write(
        static_cast<Byte*>(tile.param) + at * Element::kElementBytes, value);
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
    // As bits: a NaN must equal itself, and -0 must differ from 0.
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
