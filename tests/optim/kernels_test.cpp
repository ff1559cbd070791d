// The kernels of all instruction sets against one another, and at every length:
// values against torch are in fused_test.cpp.

#include "argosy/optim/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace argosy::optim {
namespace {

using simd::Isa;

std::vector<Isa> available() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::Baseline, Isa::Avx2, Isa::Avx512}) {
    if (isa <= simd::highest_isa()) {
      isas.push_back(isa);
    }
  }
  return isas;
}

// The memory of a parameter, with a guard behind each buffer.
struct Memory {
  static constexpr std::size_t kGuard = 128;
  std::vector<unsigned char> buffers[6];

  Memory(Format format, std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    const std::size_t bytes[] = {param_bytes(format), grad_bytes(format)};
    for (int i = 0; i < 6; ++i) {
      const bool is_state = i >= 2 || (i == 1 && has_main_grad(format));
      buffers[i].assign(
          count * (i < 2 ? bytes[i] : state_bytes(format)) + kGuard, 0xab);
      fill(
          buffers[i],
          is_state ? Format::Float32 : format,
          format,
          random,
          i > 2);
    }
  }

  // Bits of small numbers, positive ones in states.
  static void fill(
      std::vector<unsigned char>& bytes,
      Format format,
      Format of,
      std::mt19937& random,
      bool positive) {
    std::normal_distribution<double> normal;
    const Format written = of == Format::Float64 ? of : format;
    const std::size_t size = param_bytes(written);
    for (std::size_t at = 0; at + size + kGuard <= bytes.size(); at += size) {
      const double value = positive ? std::abs(normal(random)) : normal(random);
      write(&bytes[at], written, value);
    }
  }

  static void write(unsigned char* to, Format format, double value) {
    const auto single = static_cast<float>(value);
    switch (format) {
      case Format::Float64:
        std::memcpy(to, &value, 8);
        return;
      case Format::Float32:
        std::memcpy(to, &single, 4);
        return;
      case Format::BFloat16:
      case Format::BFloat16MainGrad:
        std::memcpy(to, reinterpret_cast<const char*>(&single) + 2, 2);
        return;
      case Format::Float16:
      case Format::Float16MainGrad: {
        // 1.0 to 2.0 with the sign of the value.
        const auto bits = static_cast<std::uint16_t>(
            0x3c00 + static_cast<int>(std::abs(value) * 1000) % 1024 +
            (value < 0 ? 0x8000 : 0));
        std::memcpy(to, &bits, 2);
        return;
      }
    }
  }

  Tile tile(std::size_t count) {
    return {
        .param = buffers[0].data(),
        .grad = buffers[1].data(),
        .master = buffers[2].data(),
        .states = {buffers[3].data(), buffers[4].data(), buffers[5].data()},
        .count = count};
  }

  bool operator==(const Memory& other) const {
    for (int i = 0; i < 6; ++i) {
      if (buffers[i] != other.buffers[i]) {
        return false;
      }
    }
    return true;
  }
};

template <typename Step>
void expect_same_bits(
    KernelRow<Step> KernelTable::*row, const Step& step, const char* name) {
  for (int f = 0; f < kNumFormats; ++f) {
    const auto format = static_cast<Format>(f);
    for (const std::size_t count : {0, 1, 3, 4, 15, 16, 17, 63, 64, 65, 1000}) {
      Memory expected(format, count, 7);
      double expected_sums[kNumSums] = {};
      (kernels_of(Isa::Baseline).*row)[format](
          expected.tile(count), step, expected_sums);
      for (const Isa isa : available()) {
        Memory memory(format, count, 7);
        double sums[kNumSums] = {};
        (kernels_of(isa).*row)[format](memory.tile(count), step, sums);
        EXPECT_TRUE(memory == expected)
            << name << " of format " << f << ", " << count << " elements, "
            << to_string(isa);
        for (int i = 0; i < kNumSums; ++i) {
          EXPECT_NEAR(sums[i], expected_sums[i], 1e-9 * expected_sums[i]);
        }
      }
    }
  }
}

TEST(Kernels, GiveTheSameBitsOnAllInstructionSets) {
  const SgdStep sgd{0.5, 0.1, 0.9, 0.8, 0.01, true, false};
  expect_same_bits(&KernelTable::sgd, sgd, "sgd");
  expect_same_bits(&KernelTable::momentum, sgd, "momentum");
  const AdamStep adam{0.5, 0.9, 0.99, 1e-8, 0.1, 0.999, 0.01, 0.3};
  expect_same_bits(&KernelTable::adam, adam, "adam");
  expect_same_bits(&KernelTable::amsgrad, adam, "amsgrad");
  expect_same_bits(&KernelTable::adagrad, {1, 0.1, 0.2, 1e-10}, "adagrad");
  expect_same_bits(&KernelTable::lars, {1, 0.1, 0.9, 0.01}, "lars");
  const LambStep lamb{1, 0.1, 0.9, 0.99, 1e-6, 0.01, 0.1, 0.2};
  expect_same_bits(&KernelTable::lamb_direction, lamb, "lamb direction");
  expect_same_bits(&KernelTable::lamb_update, lamb, "lamb update");
  expect_same_bits(&KernelTable::norms, {0.5}, "norms");
  expect_same_bits(&KernelTable::squares, {1}, "squares");
  expect_same_bits(&KernelTable::scale, {0.3}, "scale");
  expect_same_bits(&KernelTable::clamp, {-0.5, 0.25}, "clamp");
  expect_same_bits(&KernelTable::ema, {0.9}, "ema");
}

TEST(Kernels, SumSquaresThatFloatsCannotHold) {
  const std::vector<float> large(100, 1e30f);
  for (const Isa isa : available()) {
    double sums[kNumSums] = {};
    const Tile tile{
        .param = const_cast<float*>(large.data()), .count = large.size()};
    kernels_of(isa).squares[Format::Float32](tile, {}, sums);
    EXPECT_NEAR(sums[0] / 1e62, 1, 1e-6) << to_string(isa);
  }
}

TEST(Kernels, SeeOneInfinityAmongMany) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t at : {0, 50, 98}) {
      std::vector<float> values(99, 1);
      values[at] = bad;
      double sums[kNumSums] = {};
      kernels_of(simd::highest_isa())
          .squares[Format::Float32](
              {.param = values.data(), .count = values.size()}, {}, sums);
      EXPECT_FALSE(std::isfinite(sums[0]));
    }
  }
}

// A bfloat16 parameter that somebody else has written to wins over its master;
// where it is still the rounded master, the master counts.
TEST(Kernels, TakeOverWhatOthersWroteToTheParameter) {
  const auto brain = [](float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    return static_cast<std::uint16_t>(bits >> 16);
  };
  std::vector<float> master = {1.001f, 1.001f, 1.001f};
  std::vector<std::uint16_t> param = {brain(1.f), brain(2.f), brain(1.f)};
  const std::vector<std::uint16_t> grad(3, 0);
  for (const Isa isa : available()) {
    std::vector<float> weights = master;
    Tile tile{
        .param = param.data(),
        .grad = grad.data(),
        .master = weights.data(),
        .count = 3};
    kernels_of(isa).sgd[Format::BFloat16](tile, {.lr = 0.1}, nullptr);
    EXPECT_EQ(weights, (std::vector<float>{1.001f, 2.f, 1.001f}));
  }
}

} // namespace
} // namespace argosy::optim
