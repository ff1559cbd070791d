// Broken bytes for the codecs of objects: what they decode fits the bytes that
// were there, or is refused by InvalidArgument.

#include <gtest/gtest.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "argosy/comm/codec.h"
#include "argosy/common/error.h"
#include "tests/support/mutations.h"

namespace argosy {
namespace {

struct Nothing {}; // takes no bytes

} // namespace
} // namespace argosy

template <>
struct argosy::comm::Codec<argosy::Nothing> {
  static void encode(const argosy::Nothing&, std::string&) {}
  static argosy::Nothing decode(ByteReader&) { return {}; }
};

namespace argosy {
namespace {

using argosy::testing::fuzz_for;
using argosy::testing::kFuzzSeed;
using argosy::testing::Mutator;

// How many of the inputs are values.
template <typename T, typename Look>
int fuzz_codec(
    const std::vector<T>& values,
    int num_inputs,
    std::uint64_t seed,
    const Look& look) {
  std::vector<std::string> corpus;
  for (const T& value : values) {
    corpus.push_back(comm::encode(value));
  }
  Mutator inputs(corpus, seed);
  int decoded = 0;
  for (int i = 0; i < num_inputs; ++i) {
    const std::string input = inputs.next();
    try {
      const T value = comm::decode<T>(input);
      EXPECT_LE(look(value), input.size()) << i;
      ++decoded;
    } catch (const InvalidArgument&) {
    }
  }
  return decoded;
}

void fuzz_tensors(std::uint64_t seed) {
  const int decoded = fuzz_codec<at::Tensor>(
      {torch::arange(12, torch::kFloat).reshape({3, 4}),
       torch::ones({2, 0, 5}, torch::kLong),
       torch::tensor(true),
       torch::ones({3}, torch::kBFloat16),
       at::Tensor()},
      20'000,
      seed,
      [](const at::Tensor& tensor) {
        return tensor.defined() ? tensor.nbytes() : 0;
      });
  EXPECT_GT(decoded, 100);
}

void fuzz_values(std::uint64_t seed) {
  using Nested = std::map<std::string, std::vector<std::optional<double>>>;
  const int decoded = fuzz_codec<Nested>(
      {{{"a", {1.5, std::nullopt}}, {"", {}}}, {}},
      20'000,
      seed,
      [](const Nested& value) {
        std::size_t bytes = 0;
        for (const auto& [key, list] : value) {
          bytes += key.size() + list.size();
        }
        return bytes;
      });
  EXPECT_GT(decoded, 100);
  fuzz_codec<std::vector<bool>>(
      {{true, false, true}}, 5'000, seed, [](const std::vector<bool>& value) {
        return value.size();
      });
  fuzz_codec<std::pair<std::string, std::vector<std::string>>>(
      {{"x", {"y", ""}}}, 5'000, seed, [](const auto& value) {
        return value.first.size() + value.second.size();
      });
}

void fuzz_json(std::uint64_t seed) {
  const int decoded = fuzz_codec<nlohmann::json>(
      {{{"lr", 0.1}, {"steps", {1, 2, nullptr}}}, "text", {{{{{1}}}}}},
      20'000,
      seed,
      [](const nlohmann::json& value) { return value.size(); });
  EXPECT_GT(decoded, 100);
}

TEST(CodecFuzz, Tensors) {
  fuzz_tensors(kFuzzSeed);
}

TEST(CodecFuzz, Values) {
  fuzz_values(kFuzzSeed);
}

TEST(CodecFuzz, Json) {
  fuzz_json(kFuzzSeed);
}

TEST(CodecFuzz, SoakWithOtherSeeds) {
  fuzz_for(std::chrono::minutes(2), [](std::uint64_t seed) {
    fuzz_tensors(seed);
    fuzz_values(seed);
    fuzz_json(seed);
  });
}

std::string tensor_bytes(std::int8_t type, std::vector<std::int64_t> sizes) {
  std::string bytes;
  comm::encode_to(bytes, true, type, sizes);
  return bytes + std::string(64, 'x');
}

TEST(CodecLimits, ATensorIsNotLargerThanItsBytes) {
  for (const auto& bytes :
       {tensor_bytes(6, {std::int64_t{1} << 40}), // of 4 TB
        tensor_bytes(6, {std::int64_t{1} << 32, std::int64_t{1} << 32}),
        tensor_bytes(6, {-4, -4}),
        tensor_bytes(6, {0, -1}),
        tensor_bytes(6, {0, INT64_MAX, INT64_MAX}),
        tensor_bytes(-1, {16}),
        tensor_bytes(
            static_cast<std::int8_t>(c10::ScalarType::Undefined), {16}),
        tensor_bytes(12, {64}), // quantized
        tensor_bytes(127, {16})}) {
    EXPECT_THROW(comm::decode<at::Tensor>(bytes), InvalidArgument);
  }
}

TEST(CodecLimits, AListIsNotLongerThanItsBytes) {
  const std::string many = comm::encode(std::uint64_t{1} << 60);
  EXPECT_THROW(comm::decode<std::vector<Nothing>>(many), InvalidArgument);
  EXPECT_THROW(comm::decode<std::vector<double>>(many), InvalidArgument);
  EXPECT_EQ(
      comm::decode<std::vector<Nothing>>(comm::encode(std::uint64_t{1000}))
          .size(),
      1000u);
}

TEST(CodecLimits, JsonIsNotTooDeep) {
  // Lists of one list each, a byte for a level.
  const std::string deep(1'000'000, '\x81');
  EXPECT_THROW(
      comm::decode<nlohmann::json>(comm::encode(deep)), InvalidArgument);
  nlohmann::json value = 1;
  for (int level = 0; level < 150; ++level) {
    value = nlohmann::json::array({value});
  }
  EXPECT_EQ(comm::decode<nlohmann::json>(comm::encode(value)), value);
}

TEST(CodecLimits, ABoolIsZeroOrOne) {
  EXPECT_TRUE(comm::decode<bool>("\x01"));
  EXPECT_THROW(comm::decode<bool>("\x02"), InvalidArgument);
}

TEST(CodecLimits, PickledNonsenseIsAnErrorOfOurs) {
  EXPECT_THROW(
      comm::decode<c10::IValue>(comm::encode(std::string("PK nonsense"))),
      InvalidArgument);
}

} // namespace
} // namespace argosy
