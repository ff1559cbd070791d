#pragma once

// What the kernels should give, element by element and with nothing of theirs.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "argosy/comm/kernels/reduce_op.h"

namespace argosy::comm::testing {

using Bytes = std::vector<unsigned char>;

// ---- The 16-bit formats, by arithmetic on values ----------------------------

struct Format16 {
  int fraction_bits;
  int lowest_exponent; // of normal numbers
  std::uint16_t infinity;
};

inline constexpr Format16 kHalf{10, -14, 0x7c00};
inline constexpr Format16 kBrain{7, -126, 0x7f80};

inline double decode(Format16 format, std::uint16_t bits) {
  const int magnitude = bits & 0x7fff;
  const int fraction = magnitude & ((1 << format.fraction_bits) - 1);
  const int exponent = magnitude >> format.fraction_bits;
  double value = 0;
  if (magnitude > format.infinity) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (magnitude == format.infinity) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, format.lowest_exponent - format.fraction_bits);
  } else {
    value = std::ldexp(
        (1 << format.fraction_bits) + fraction,
        format.lowest_exponent - format.fraction_bits + exponent - 1);
  }
  return std::copysign(value, (bits & 0x8000) != 0 ? -1.0 : 1.0);
}

// The nearest representable value, the even one of two: by bisection over all
// finite values, which increase with their bits.
inline std::uint16_t encode(Format16 format, double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) << 15);
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) {
    return sign | format.infinity | 1;
  }
  int below = 0;
  int above = format.infinity;
  while (above - below > 1) {
    const int middle = (below + above) / 2;
    (decode(format, middle) <= magnitude ? below : above) = middle;
  }
  // What the next value would be if the exponent went on, for overflow.
  const double low = decode(format, below);
  const double step = low - decode(format, below - (below > 0 ? 1 : 0));
  const double high =
      above == format.infinity ? low + step : decode(format, above);
  const double middle = low + (high - low) / 2;
  const bool up = magnitude > middle || (magnitude == middle && below % 2 == 1);
  return sign | static_cast<std::uint16_t>(up ? above : below);
}

// ---- Oracle -----------------------------------------------------------------

template <typename T>
T read(const Bytes& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void write(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
T combine_floats(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::MAX:
      return std::isnan(a) || std::isnan(b)
          ? std::numeric_limits<T>::quiet_NaN()
          : std::max(a, b);
    case ReduceOp::MIN:
      return std::isnan(a) || std::isnan(b)
          ? std::numeric_limits<T>::quiet_NaN()
          : std::min(a, b);
    case ReduceOp::PROD:
      return a * b;
    default:
      return a + b;
  }
}

template <typename T>
T combine_complex(ReduceOp op, T a, T b) {
  if (op != ReduceOp::PROD) {
    return a + b;
  }
  return {
      a.real() * b.real() - a.imag() * b.imag(),
      a.real() * b.imag() + a.imag() * b.real()};
}

// In 128 bits, so that nothing overflows; the narrowing wraps.
template <typename T>
T combine_integers(ReduceOp op, T a, T b) {
  const __int128 x = a;
  const __int128 y = b;
  switch (op) {
    case ReduceOp::MAX:
      return a > b ? a : b;
    case ReduceOp::MIN:
      return a < b ? a : b;
    case ReduceOp::PROD:
      return static_cast<T>(x * y);
    case ReduceOp::BAND:
      return static_cast<T>(x & y);
    case ReduceOp::BOR:
      return static_cast<T>(x | y);
    case ReduceOp::BXOR:
      return static_cast<T>(x ^ y);
    default:
      return static_cast<T>(x + y);
  }
}

inline bool combine_bools(ReduceOp op, bool a, bool b) {
  switch (op) {
    case ReduceOp::PROD:
    case ReduceOp::MIN:
    case ReduceOp::BAND:
      return a && b;
    case ReduceOp::BXOR:
      return a != b;
    default:
      return a || b;
  }
}

template <typename Combine, typename Read>
auto fold(
    const std::vector<Bytes>& inputs, const Combine& combine, const Read& get) {
  auto value = get(inputs[0]);
  for (std::size_t k = 1; k < inputs.size(); ++k) {
    value = combine(value, get(inputs[k]));
  }
  return value;
}

template <typename T, typename Combine>
void fold_at(
    Bytes& out,
    const std::vector<Bytes>& inputs,
    std::size_t i,
    const Combine& combine,
    std::optional<T> divisor) {
  T value =
      fold(inputs, combine, [i](const Bytes& b) { return read<T>(b, i); });
  write<T>(out, i, divisor ? static_cast<T>(value / *divisor) : value);
}

template <typename T>
void integer_at(
    Bytes& out,
    const std::vector<Bytes>& inputs,
    std::size_t i,
    ReduceOp op,
    int divisor) {
  const long long value = fold(
      inputs,
      [op](T a, T b) { return combine_integers(op, a, b); },
      [i](const Bytes& b) { return read<T>(b, i); });
  write<T>(
      out, i, static_cast<T>(op == ReduceOp::AVG ? value / divisor : value));
}

inline void format16_at(
    Bytes& out,
    const std::vector<Bytes>& inputs,
    std::size_t i,
    ReduceOp op,
    int divisor,
    Format16 format) {
  if (inputs.size() == 1 && op != ReduceOp::AVG) {
    return write(out, i, read<std::uint16_t>(inputs[0], i));
  }
  float value = fold(
      inputs,
      [op](float a, float b) { return combine_floats(op, a, b); },
      [&](const Bytes& b) {
        return static_cast<float>(decode(format, read<std::uint16_t>(b, i)));
      });
  if (op == ReduceOp::AVG) {
    value /= static_cast<float>(divisor);
  }
  write(out, i, encode(format, value));
}

template <typename T>
void float_at(
    Bytes& out,
    const std::vector<Bytes>& inputs,
    std::size_t i,
    ReduceOp op,
    int divisor) {
  fold_at<T>(
      out,
      inputs,
      i,
      [op](T a, T b) { return combine_floats(op, a, b); },
      op == ReduceOp::AVG ? std::optional<T>(divisor) : std::nullopt);
}

template <typename T>
void complex_at(
    Bytes& out,
    const std::vector<Bytes>& inputs,
    std::size_t i,
    ReduceOp op,
    int divisor) {
  using C = std::complex<T>;
  const C value = fold(
      inputs,
      [op](C a, C b) { return combine_complex(op, a, b); },
      [i](const Bytes& b) { return read<C>(b, i); });
  write<C>(
      out, i, op == ReduceOp::AVG ? value / static_cast<T>(divisor) : value);
}

inline void oracle_at(
    Bytes& out,
    const std::vector<Bytes>& inputs,
    std::size_t i,
    DType dtype,
    ReduceOp op,
    int divisor) {
  switch (dtype) {
    case DType::Float32:
      return float_at<float>(out, inputs, i, op, divisor);
    case DType::Float64:
      return float_at<double>(out, inputs, i, op, divisor);
    case DType::Float16:
      return format16_at(out, inputs, i, op, divisor, kHalf);
    case DType::BFloat16:
      return format16_at(out, inputs, i, op, divisor, kBrain);
    case DType::Int8:
      return integer_at<std::int8_t>(out, inputs, i, op, divisor);
    case DType::UInt8:
      return integer_at<std::uint8_t>(out, inputs, i, op, divisor);
    case DType::Int16:
      return integer_at<std::int16_t>(out, inputs, i, op, divisor);
    case DType::Int32:
      return integer_at<std::int32_t>(out, inputs, i, op, divisor);
    case DType::Int64:
      return integer_at<std::int64_t>(out, inputs, i, op, divisor);
    case DType::Complex64:
      return complex_at<float>(out, inputs, i, op, divisor);
    case DType::Complex128:
      return complex_at<double>(out, inputs, i, op, divisor);
    case DType::Bool:
      return fold_at<bool>(
          out,
          inputs,
          i,
          [op](bool a, bool b) { return combine_bools(op, a, b); },
          std::nullopt);
  }
}

inline Bytes oracle(
    const std::vector<Bytes>& inputs,
    DType dtype,
    ReduceOp op,
    int divisor = 0) {
  Bytes out(inputs[0].size());
  const int by = divisor > 0 ? divisor : static_cast<int>(inputs.size());
  for (std::size_t i = 0; i < out.size() / size_of(dtype); ++i) {
    oracle_at(out, inputs, i, dtype, op, by);
  }
  return out;
}

} // namespace argosy::comm::testing
