// Every dtype, op, number of inputs and instruction set against a scalar oracle
// that shares nothing with the kernels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "argosy/comm/kernels/lowering.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/common/error.h"

namespace argosy::comm {
namespace {

using Bytes = std::vector<unsigned char>;

std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i < kNumDTypes; ++i) {
    all.push_back(static_cast<DType>(i));
  }
  return all;
}

std::vector<ReduceOp> all_ops() {
  std::vector<ReduceOp> all;
  for (int i = 0; i < kNumReduceOps; ++i) {
    all.push_back(static_cast<ReduceOp>(i));
  }
  return all;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::Baseline, Isa::Avx2, Isa::Avx512}) {
    if (isa <= highest_isa()) {
      isas.push_back(isa);
    }
  }
  return isas;
}

// ---- The 16-bit formats, by arithmetic on values ----------------------------

struct Format16 {
  int fraction_bits;
  int lowest_exponent; // of normal numbers
  std::uint16_t infinity;
};

constexpr Format16 kHalf{10, -14, 0x7c00};
constexpr Format16 kBrain{7, -126, 0x7f80};

double decode(Format16 format, std::uint16_t bits) {
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
std::uint16_t encode(Format16 format, double value) {
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
    case ReduceOp::Max:
      return std::isnan(a) || std::isnan(b)
          ? std::numeric_limits<T>::quiet_NaN()
          : std::max(a, b);
    case ReduceOp::Min:
      return std::isnan(a) || std::isnan(b)
          ? std::numeric_limits<T>::quiet_NaN()
          : std::min(a, b);
    case ReduceOp::Prod:
      return a * b;
    default:
      return a + b;
  }
}

template <typename T>
T combine_complex(ReduceOp op, T a, T b) {
  if (op != ReduceOp::Prod) {
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
    case ReduceOp::Max:
      return a > b ? a : b;
    case ReduceOp::Min:
      return a < b ? a : b;
    case ReduceOp::Prod:
      return static_cast<T>(x * y);
    case ReduceOp::BitAnd:
      return static_cast<T>(x & y);
    case ReduceOp::BitOr:
      return static_cast<T>(x | y);
    case ReduceOp::BitXor:
      return static_cast<T>(x ^ y);
    default:
      return static_cast<T>(x + y);
  }
}

bool combine_bools(ReduceOp op, bool a, bool b) {
  switch (op) {
    case ReduceOp::Prod:
    case ReduceOp::Min:
    case ReduceOp::BitAnd:
      return a && b;
    case ReduceOp::BitXor:
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
      out, i, static_cast<T>(op == ReduceOp::Avg ? value / divisor : value));
}

void format16_at(
    Bytes& out,
    const std::vector<Bytes>& inputs,
    std::size_t i,
    ReduceOp op,
    int divisor,
    Format16 format) {
  if (inputs.size() == 1 && op != ReduceOp::Avg) {
    return write(out, i, read<std::uint16_t>(inputs[0], i));
  }
  float value = fold(
      inputs,
      [op](float a, float b) { return combine_floats(op, a, b); },
      [&](const Bytes& b) {
        return static_cast<float>(decode(format, read<std::uint16_t>(b, i)));
      });
  if (op == ReduceOp::Avg) {
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
      op == ReduceOp::Avg ? std::optional<T>(divisor) : std::nullopt);
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
      out, i, op == ReduceOp::Avg ? value / static_cast<T>(divisor) : value);
}

void oracle_at(
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

Bytes oracle(
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

// ---- Inputs, calls ----------------------------------------------------------

template <typename T>
Bytes random_floats(std::size_t count, std::mt19937& random) {
  std::uniform_real_distribution<T> in_range(-4, 4);
  Bytes bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    write<T>(bytes, i, in_range(random));
  }
  return bytes;
}

Bytes random_input(DType dtype, std::size_t count, std::mt19937& random) {
  Bytes bytes(count * size_of(dtype));
  switch (dtype) {
    case DType::Float32:
      return random_floats<float>(count, random);
    case DType::Float64:
      return random_floats<double>(count, random);
    case DType::Complex64:
      return random_floats<float>(2 * count, random);
    case DType::Complex128:
      return random_floats<double>(2 * count, random);
    case DType::Bool:
      for (auto& byte : bytes) {
        byte = random() % 2;
      }
      return bytes;
    case DType::Float16:
    case DType::BFloat16: {
      const Bytes floats = random_floats<float>(count, random);
      for (std::size_t i = 0; i < count; ++i) {
        const double value = read<float>(floats, i);
        write(
            bytes, i, encode(dtype == DType::Float16 ? kHalf : kBrain, value));
      }
      return bytes;
    }
    default:
      std::generate(bytes.begin(), bytes.end(), std::ref(random));
      return bytes;
  }
}

std::vector<Bytes> random_inputs(
    DType dtype, int num_inputs, std::size_t count) {
  std::mt19937 random(1000 * num_inputs + static_cast<int>(dtype));
  std::vector<Bytes> inputs;
  for (int k = 0; k < num_inputs; ++k) {
    inputs.push_back(random_input(dtype, count, random));
  }
  return inputs;
}

std::vector<const void*> pointers(const std::vector<Bytes>& inputs) {
  std::vector<const void*> all;
  for (const Bytes& input : inputs) {
    all.push_back(input.data());
  }
  return all;
}

Bytes reduced(
    Isa isa,
    const std::vector<Bytes>& inputs,
    DType dtype,
    ReduceOp op,
    ReduceOptions options = {}) {
  Bytes out(inputs[0].size() + 1, 0xa5);
  const std::size_t count = inputs[0].size() / size_of(dtype);
  reduce_on(
      isa,
      out.data(),
      pointers(inputs).data(),
      static_cast<int>(inputs.size()),
      count,
      dtype,
      op,
      options);
  EXPECT_EQ(out.back(), 0xa5) << "written past the end";
  out.pop_back();
  return out;
}

std::string label(Isa isa, DType dtype, ReduceOp op, std::size_t num_inputs) {
  return str(
      to_string(isa),
      " ",
      to_string(op),
      " ",
      to_string(dtype),
      " of ",
      num_inputs);
}

// Calls f for every pair that is supported.
template <typename F>
void for_each_pair(const F& f) {
  for (DType dtype : all_dtypes()) {
    for (ReduceOp op : all_ops()) {
      if (is_supported(op, dtype)) {
        f(dtype, op);
      }
    }
  }
}

Bytes prefix(const Bytes& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

void expect_oracle_for_all_counts(DType dtype, ReduceOp op, int num_inputs) {
  const auto inputs = random_inputs(dtype, num_inputs, 4099);
  const Bytes expected = oracle(inputs, dtype, op);
  for (Isa isa : available_isas()) {
    for (std::size_t count : {0, 1, 7, 16, 1000, 4099}) {
      std::vector<Bytes> cut;
      for (const Bytes& input : inputs) {
        cut.push_back(prefix(input, count * size_of(dtype)));
      }
      EXPECT_TRUE(
          reduced(isa, cut, dtype, op) ==
          prefix(expected, count * size_of(dtype)))
          << label(isa, dtype, op, num_inputs) << ", count " << count;
    }
  }
}

// ---- Tests ------------------------------------------------------------------

TEST(Kernels, EqualTheOracleOnEveryInstructionSet) {
  for_each_pair([](DType dtype, ReduceOp op) {
    for (int num_inputs : {1, 2, 3, 4, 5, 7, 8, 9}) {
      expect_oracle_for_all_counts(dtype, op, num_inputs);
    }
  });
}

TEST(Kernels, OutMayBeAnyOneInput) {
  for_each_pair([](DType dtype, ReduceOp op) {
    for (int num_inputs : {1, 2, 3, 4, 5, 8, 9}) {
      for (int alias = 0; alias < num_inputs; ++alias) {
        auto inputs = random_inputs(dtype, num_inputs, 333);
        const Bytes expected = oracle(inputs, dtype, op);
        const auto at = pointers(inputs);
        const ReduceOptions options{.stream_out = alias % 2 == 1};
        reduce(
            inputs[alias].data(),
            at.data(),
            num_inputs,
            333,
            dtype,
            op,
            options);
        EXPECT_TRUE(inputs[alias] == expected)
            << label(current_isa(), dtype, op, num_inputs) << ", " << alias;
      }
    }
  });
}

// Input k starts k + 1 bytes after the beginning of its buffer, the output
// three.
void expect_oracle_unaligned(Isa isa, DType dtype, ReduceOp op, bool stream) {
  const auto inputs = random_inputs(dtype, 3, 5001);
  std::vector<Bytes> shifted = inputs;
  std::vector<const void*> at;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    shifted[k].insert(shifted[k].begin(), k + 1, 0);
    at.push_back(shifted[k].data() + k + 1);
  }
  Bytes out(inputs[0].size() + 4, 0xa5);
  reduce_on(
      isa,
      out.data() + 3,
      at.data(),
      3,
      5001,
      dtype,
      op,
      {.stream_out = stream});
  EXPECT_EQ(out[2], 0xa5);
  EXPECT_EQ(out.back(), 0xa5);
  const Bytes result(out.begin() + 3, out.end() - 1);
  EXPECT_TRUE(result == oracle(inputs, dtype, op))
      << label(isa, dtype, op, 3) << (stream ? ", streamed" : "");
}

TEST(Kernels, NeedNoAlignmentAndStreamTheSame) {
  for_each_pair([](DType dtype, ReduceOp op) {
    for (Isa isa : available_isas()) {
      expect_oracle_unaligned(isa, dtype, op, false);
      expect_oracle_unaligned(isa, dtype, op, true);
    }
  });
}

TEST(Kernels, AvgDividesByWhatItIsTold) {
  for (DType dtype : all_dtypes()) {
    if (!is_supported(ReduceOp::Avg, dtype)) {
      continue;
    }
    const auto inputs = random_inputs(dtype, 2, 200);
    for (int divisor : {1, 6, 128, 300}) {
      for (Isa isa : available_isas()) {
        const ReduceOptions options{.divisor = divisor};
        EXPECT_TRUE(
            reduced(isa, inputs, dtype, ReduceOp::Avg, options) ==
            oracle(inputs, dtype, ReduceOp::Avg, divisor))
            << label(isa, dtype, ReduceOp::Avg, 2) << " by " << divisor;
      }
    }
  }
}

TEST(Kernels, IntegerAvgTruncatesTowardZero) {
  const std::int32_t a[] = {-7, 7, -1, 1};
  const std::int32_t b[] = {0, 0, 0, 0};
  const void* inputs[] = {a, b};
  std::int32_t out[4];
  reduce(out, inputs, 2, 4, DType::Int32, ReduceOp::Avg);
  EXPECT_THAT(out, ::testing::ElementsAre(-3, 3, 0, 0));
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
void expect_nan_wherever_one_is(DType dtype, T nan, T inf, T one, T two) {
  const std::vector<T> a = {nan, one, nan, inf, one, two};
  const std::vector<T> b = {one, nan, nan, one, inf, one};
  const std::vector<Bytes> inputs = {bytes_of(a), bytes_of(b)};
  for (Isa isa : available_isas()) {
    const Bytes larger = reduced(isa, inputs, dtype, ReduceOp::Max);
    const Bytes smaller = reduced(isa, inputs, dtype, ReduceOp::Min);
    const std::vector<T> max = {nan, nan, nan, inf, inf, two};
    const std::vector<T> min = {nan, nan, nan, one, one, one};
    EXPECT_TRUE(larger == bytes_of(max)) << label(isa, dtype, ReduceOp::Max, 2);
    EXPECT_TRUE(smaller == bytes_of(min))
        << label(isa, dtype, ReduceOp::Min, 2);
  }
}

TEST(Kernels, MaxAndMinPropagateNan) {
  using Half = std::uint16_t;
  expect_nan_wherever_one_is<float>(DType::Float32, NAN, INFINITY, 1, 2);
  expect_nan_wherever_one_is<double>(DType::Float64, NAN, INFINITY, 1, 2);
  expect_nan_wherever_one_is<Half>(
      DType::Float16, 0x7e00, 0x7c00, 0x3c00, 0x4000);
  expect_nan_wherever_one_is<Half>(
      DType::BFloat16, 0x7fc0, 0x7f80, 0x3f80, 0x4000);
}

TEST(Kernels, SumsKeepInfinitiesAndMakeNan) {
  const std::vector<Bytes> inputs = {
      bytes_of<float>({INFINITY, INFINITY, -INFINITY, NAN}),
      bytes_of<float>({1, -INFINITY, 1, 1})};
  for (Isa isa : available_isas()) {
    const Bytes sum = reduced(isa, inputs, DType::Float32, ReduceOp::Sum);
    EXPECT_EQ(read<float>(sum, 0), INFINITY);
    EXPECT_TRUE(std::isnan(read<float>(sum, 1)));
    EXPECT_EQ(read<float>(sum, 2), -INFINITY);
    EXPECT_TRUE(std::isnan(read<float>(sum, 3)));
  }
}

// ---- Conversions ------------------------------------------------------------

Bytes all_16_bits() {
  std::vector<std::uint16_t> all(65536);
  for (int i = 0; i < 65536; ++i) {
    all[i] = static_cast<std::uint16_t>(i);
  }
  return bytes_of(all);
}

// An average of one input converts there and back.
void expect_round_trip(Isa isa, DType dtype, Format16 format) {
  const std::vector<Bytes> inputs = {all_16_bits()};
  const Bytes out = reduced(isa, inputs, dtype, ReduceOp::Avg);
  const int quiet = 1 << (format.fraction_bits - 1);
  for (int i = 0; i < 65536; ++i) {
    const bool nan = (i & 0x7fff) > format.infinity;
    ASSERT_EQ(read<std::uint16_t>(out, i), nan ? i | quiet : i)
        << to_string(isa) << " " << to_string(dtype);
  }
}

TEST(Kernels, All16BitFloatsSurviveConversion) {
  for (Isa isa : available_isas()) {
    expect_round_trip(isa, DType::Float16, kHalf);
    expect_round_trip(isa, DType::BFloat16, kBrain);
  }
}

// Every value divided by numbers that leave long quotients, and ties at 2.
void expect_rounding(Isa isa, DType dtype, Format16 format, int divisor) {
  const std::vector<Bytes> inputs = {all_16_bits()};
  const ReduceOptions options{.divisor = divisor};
  const Bytes out = reduced(isa, inputs, dtype, ReduceOp::Avg, options);
  for (int i = 0; i < 65536; ++i) {
    const auto value = static_cast<float>(decode(format, i));
    if (!std::isnan(value)) {
      ASSERT_EQ(
          read<std::uint16_t>(out, i),
          encode(format, value / static_cast<float>(divisor)))
          << to_string(isa) << " " << to_string(dtype) << " " << i << " / "
          << divisor;
    }
  }
}

TEST(Kernels, RoundToNearestEven) {
  for (Isa isa : available_isas()) {
    for (int divisor : {2, 3, 7, 1024, 65536}) {
      expect_rounding(isa, DType::Float16, kHalf, divisor);
      expect_rounding(isa, DType::BFloat16, kBrain, divisor);
    }
  }
}

// Sums of every value with a few others: carries, overflow, cancellation.
void expect_sums(Isa isa, DType dtype, Format16 format) {
  const Bytes all = all_16_bits();
  for (std::uint16_t other : {0x0001, 0x3bff, 0x3f81, 0x7bff, 0x7f7f, 0x8001}) {
    const Bytes others = bytes_of(std::vector<std::uint16_t>(65536, other));
    const Bytes out = reduced(isa, {all, others}, dtype, ReduceOp::Sum);
    const double addend = decode(format, other);
    for (int i = 0; i < 65536; ++i) {
      const auto sum =
          static_cast<float>(decode(format, i)) + static_cast<float>(addend);
      const auto got = read<std::uint16_t>(out, i);
      if (std::isnan(sum)) {
        ASSERT_GT(got & 0x7fff, format.infinity);
      } else {
        ASSERT_EQ(got, encode(format, sum))
            << to_string(isa) << " " << i << " + " << other;
      }
    }
  }
}

TEST(Kernels, SumsOf16BitFloatsRoundOnce) {
  for (Isa isa : available_isas()) {
    expect_sums(isa, DType::Float16, kHalf);
    expect_sums(isa, DType::BFloat16, kBrain);
  }
}

// In float, 1 + 2^-9 eight times is more than 1; rounded each time it is 1.
TEST(Kernels, BFloat16AccumulatesInFloat) {
  std::vector<Bytes> inputs(8, bytes_of<std::uint16_t>({0x3b00}));
  inputs[0] = bytes_of<std::uint16_t>({0x3f80});
  for (Isa isa : available_isas()) {
    const Bytes sum = reduced(isa, inputs, DType::BFloat16, ReduceOp::Sum);
    EXPECT_EQ(read<std::uint16_t>(sum, 0), 0x3f82);
  }
}

// ---- Copy, choices, errors --------------------------------------------------

TEST(Kernels, CopyAtAnyAlignment) {
  Bytes from(600000);
  std::mt19937 random(1);
  std::generate(from.begin(), from.end(), std::ref(random));
  for (std::size_t shift : {0, 1, 33, 63}) {
    for (std::size_t size : {0, 1, 40, 64, 1000, 500001}) {
      for (Isa isa : available_isas()) {
        Bytes to(from.size(), 0xa5);
        stream_copy_on(isa, to.data() + shift, from.data() + 5, size);
        EXPECT_EQ(std::memcmp(to.data() + shift, from.data() + 5, size), 0);
        EXPECT_EQ(std::count(to.begin(), to.begin() + shift, 0xa5), shift);
        EXPECT_EQ(to[shift + size], 0xa5);
      }
      Bytes to(from.size(), 0xa5);
      copy(to.data() + shift, from.data(), size, true);
      EXPECT_EQ(std::memcmp(to.data() + shift, from.data(), size), 0);
      EXPECT_EQ(to[shift + size], 0xa5);
    }
  }
}

TEST(Kernels, UnsupportedPairsAreNamed) {
  float value = 0;
  const void* inputs[] = {&value, &value};
  try {
    reduce(&value, inputs, 2, 1, DType::Complex64, ReduceOp::Max);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("max of complex64"));
  }
  EXPECT_THROW(
      check_supported(ReduceOp::BitXor, DType::BFloat16), InvalidArgument);
  EXPECT_THROW(check_supported(ReduceOp::Avg, DType::Bool), InvalidArgument);
  EXPECT_THROW(
      reduce(&value, inputs, 0, 1, DType::Float32, ReduceOp::Sum),
      InvalidArgument);
  EXPECT_THROW(
      reduce(&value, inputs, 2, 1, DType::Float32, ReduceOp::Avg, {-1}),
      InvalidArgument);
}

TEST(Kernels, LoweringSharesWhatIsTheSameWork) {
  EXPECT_EQ(
      lower(ReduceOp::BitAnd, DType::Int64),
      (Lowering{DType::UInt8, ReduceOp::BitAnd, 8}));
  EXPECT_EQ(
      lower(ReduceOp::Avg, DType::Complex128),
      (Lowering{DType::Float64, ReduceOp::Avg, 2}));
  EXPECT_EQ(
      lower(ReduceOp::Max, DType::Bool),
      (Lowering{DType::UInt8, ReduceOp::BitOr}));
}

TEST(Isa, EnvironmentOnlyLowersIt) {
  EXPECT_EQ(choose_isa({}, Isa::Avx512), Isa::Avx512);
  EXPECT_EQ(choose_isa({{"ARGOSY_ISA", "avx2"}}, Isa::Avx512), Isa::Avx2);
  EXPECT_EQ(choose_isa({{"ARGOSY_ISA", "avx512"}}, Isa::Avx2), Isa::Avx2);
  EXPECT_THROW(choose_isa({{"ARGOSY_ISA", "mmx"}}, Isa::Avx2), InvalidArgument);
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::BFloat16), 2u);
  EXPECT_EQ(size_of(DType::Complex128), 16u);
  EXPECT_EQ(to_string(DType::Bool), "bool");
  EXPECT_EQ(to_string(ReduceOp::BitXor), "bit_xor");
  EXPECT_THROW(size_of(static_cast<DType>(99)), InvalidArgument);
}

} // namespace
} // namespace argosy::comm
