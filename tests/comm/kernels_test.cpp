// Every dtype, op, number of inputs and instruction set against a scalar oracle
// that shares nothing with the kernels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "argosy/comm/kernels/lowering.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/common/error.h"
#include "tests/comm/kernels_oracle.h"

namespace argosy::comm {
namespace {

using simd::choose_isa;
using simd::current_isa;
using simd::highest_isa;
using simd::Isa;

using namespace testing;

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
  return str_format(
      "{} {} {} of {}",
      to_string(isa),
      to_string(op),
      to_string(dtype),
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
    if (!is_supported(ReduceOp::AVG, dtype)) {
      continue;
    }
    const auto inputs = random_inputs(dtype, 2, 200);
    for (int divisor : {1, 6, 128, 300}) {
      for (Isa isa : available_isas()) {
        const ReduceOptions options{.divisor = divisor};
        EXPECT_TRUE(
            reduced(isa, inputs, dtype, ReduceOp::AVG, options) ==
            oracle(inputs, dtype, ReduceOp::AVG, divisor))
            << label(isa, dtype, ReduceOp::AVG, 2) << " by " << divisor;
      }
    }
  }
}

TEST(Kernels, IntegerAvgTruncatesTowardZero) {
  const std::int32_t a[] = {-7, 7, -1, 1};
  const std::int32_t b[] = {0, 0, 0, 0};
  const void* inputs[] = {a, b};
  std::int32_t out[4];
  reduce(out, inputs, 2, 4, DType::Int32, ReduceOp::AVG);
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
    const Bytes larger = reduced(isa, inputs, dtype, ReduceOp::MAX);
    const Bytes smaller = reduced(isa, inputs, dtype, ReduceOp::MIN);
    const std::vector<T> max = {nan, nan, nan, inf, inf, two};
    const std::vector<T> min = {nan, nan, nan, one, one, one};
    EXPECT_TRUE(larger == bytes_of(max)) << label(isa, dtype, ReduceOp::MAX, 2);
    EXPECT_TRUE(smaller == bytes_of(min))
        << label(isa, dtype, ReduceOp::MIN, 2);
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
    const Bytes sum = reduced(isa, inputs, DType::Float32, ReduceOp::SUM);
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
  const Bytes out = reduced(isa, inputs, dtype, ReduceOp::AVG);
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
  const Bytes out = reduced(isa, inputs, dtype, ReduceOp::AVG, options);
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
    const Bytes out = reduced(isa, {all, others}, dtype, ReduceOp::SUM);
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
    const Bytes sum = reduced(isa, inputs, DType::BFloat16, ReduceOp::SUM);
    EXPECT_EQ(read<std::uint16_t>(sum, 0), 0x3f82);
  }
}

// ---- Copy, choices, errors --------------------------------------------------

TEST(Kernels, CopyAtAnyAlignment) {
  Bytes from(1200000);
  std::mt19937 random(1);
  std::generate(from.begin(), from.end(), std::ref(random));
  for (std::size_t shift : {0, 1, 33, 63}) {
    for (std::size_t size : {0, 1, 40, 64, 1000, 1100001}) {
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
    reduce(&value, inputs, 2, 1, DType::Complex64, ReduceOp::MAX);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("max of complex64"));
  }
  EXPECT_THROW(
      check_supported(ReduceOp::BXOR, DType::BFloat16), InvalidArgument);
  EXPECT_THROW(check_supported(ReduceOp::AVG, DType::Bool), InvalidArgument);
  EXPECT_THROW(
      reduce(&value, inputs, 0, 1, DType::Float32, ReduceOp::SUM),
      InvalidArgument);
  EXPECT_THROW(
      reduce(&value, inputs, 2, 1, DType::Float32, ReduceOp::AVG, {-1}),
      InvalidArgument);
}

TEST(Kernels, LoweringSharesWhatIsTheSameWork) {
  EXPECT_EQ(
      lower(ReduceOp::BAND, DType::Int64),
      (Lowering{DType::UInt8, ReduceOp::BAND, 8}));
  EXPECT_EQ(
      lower(ReduceOp::AVG, DType::Complex128),
      (Lowering{DType::Float64, ReduceOp::AVG, 2}));
  EXPECT_EQ(
      lower(ReduceOp::MAX, DType::Bool),
      (Lowering{DType::UInt8, ReduceOp::BOR}));
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
  EXPECT_EQ(to_string(ReduceOp::BXOR), "bit_xor");
  EXPECT_THROW(size_of(static_cast<DType>(99)), InvalidArgument);
}

} // namespace
} // namespace argosy::comm
