#include "argosy/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::refusal;

std::string file_of(const std::string& json) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(json.size() >> 8 * i & 255);
  }
  return bytes + json;
}

SafetensorsHeader parse(const std::string& json, std::uint64_t data) {
  const std::string bytes = file_of(json);
  return parse_header(bytes, bytes.size() + data, "x.safetensors");
}

std::string refusal_of(const std::string& json, std::uint64_t data) {
  return refusal<CheckpointError>([&] { (void)parse(json, data); });
}

TEST(Safetensors, HeadersGoBothWays) {
  const std::vector<TensorInfo> tensors = {
      {"b.bias", DType::kF16, {3}},
      {"a \"quoted\" \xc3\xa9\n", DType::kBool, {}},
      {"c", DType::kF64, {2, 0, 5}},
      {"b.weight", DType::kF16, {3, 7}},
      {"empty too", DType::kI64, {0}},
      {"d", DType::kU64, {1}}};
  for (const std::uint64_t alignment : {8, 512, 4096}) {
    const SafetensorsHeader header =
        lay_out(tensors, {{"format", "pt"}, {"note", "a\"b"}}, alignment);
    EXPECT_EQ(header.data_begin % alignment, 0u);
    EXPECT_EQ(header.file_bytes, header.data_begin + 8 + 6 + 42 + 1);
    EXPECT_EQ(header.tensors.front().info.name, "d");
    for (const StoredTensor& tensor : header.tensors) {
      EXPECT_EQ(tensor.offset % element_bytes(tensor.info.dtype), 0u);
    }
    const std::string bytes = header_bytes(header);
    ASSERT_EQ(bytes.size(), header.data_begin);
    EXPECT_EQ(
        header_size(
            std::as_bytes(std::span(bytes).first(8)), header.file_bytes, "x"),
        header.data_begin);
    EXPECT_EQ(parse_header(bytes, header.file_bytes, "x"), header);
  }
}

TEST(Safetensors, AFileMayBeEmpty) {
  const SafetensorsHeader header = lay_out({}, {});
  EXPECT_EQ(header_bytes(header).substr(8, 2), "{}");
  EXPECT_EQ(parse_header(header_bytes(header), 4096, "x"), header);
}

TEST(Safetensors, ReadsWhatOthersWrite) {
  const auto header = parse(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,2],)"
      R"("data_offsets":[0,8],"more":{"x":[1,"}"]}},"s":{"shape":[],)"
      R"("data_offsets":[8,12],"dtype":"F32"}}   )",
      12);
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].info, (TensorInfo{"w", DType::kBF16, {2, 2}}));
  EXPECT_EQ(header.tensors[1].offset, header.data_begin + 8);
  EXPECT_EQ(header.tensors[1].bytes, 4u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(Safetensors, LayOutRefusesBadTensors) {
  const TensorInfo a{"a", DType::kF32, {1}};
  EXPECT_THAT(refusal([&] { (void)lay_out({a, a}, {}); }), HasSubstr("name a"));
  EXPECT_NE(refusal([&] { (void)lay_out({a}, {}, 100); }), "");
  EXPECT_NE(
      refusal([] {
        (void)lay_out({{"__metadata__", DType::kF32, {}}}, {});
      }),
      "");
  EXPECT_NE(refusal([] { (void)lay_out({{"a", DType::kF32, {-1}}}, {}); }), "");
  EXPECT_THAT(
      refusal([] {
        (void)lay_out({{"\xff", DType::kF32, {1}}}, {});
      }),
      HasSubstr("UTF-8"));
}

std::string entry(
    const std::string& name,
    const std::string& dtype,
    const std::string& shape,
    const std::string& range) {
  return '"' + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
      ",\"data_offsets\":" + range + '}';
}

TEST(Safetensors, RefusesDamagedHeaders) {
  const std::string a = entry("a", "\"F32\"", "[2]", "[0,8]");
  const auto expect =
      [](const std::string& json, std::uint64_t data, const char* message) {
        const std::string found = refusal_of(json, data);
        EXPECT_THAT(found, HasSubstr(message)) << json;
        EXPECT_THAT(found, HasSubstr("x.safetensors")) << json;
      };
  EXPECT_EQ(refusal_of('{' + a + '}', 8), "");
  expect(
      '{' + a + ',' + entry("a", "\"F32\"", "[1]", "[8,12]") + '}',
      12,
      "a is there twice");
  expect('{' + a + '}', 7, "truncated");
  expect('{' + a + '}', 9, "where the last tensor ends");
  expect(
      '{' + entry("a", "\"F32\"", "[2]", "[4,12]") + '}',
      12,
      "begins at byte 4");
  expect(
      '{' + a + ',' + entry("b", "\"F32\"", "[1]", "[4,8]") + '}',
      8,
      "tensor b begins at byte 4");
  expect('{' + entry("a", "\"F32\"", "[3]", "[0,8]") + '}', 8, "expected 12");
  expect('{' + entry("a", "\"F32\"", "[2]", "[8,0]") + '}', 8, "data_offsets");
  expect(
      '{' + entry("a", "\"F32\"", "[2]", "[0,8,9]") + '}', 8, "data_offsets");
  expect('{' + entry("a", "\"F4\"", "[2]", "[0,8]") + '}', 8, "\"F4\"");
  expect(
      '{' + entry("a", "\"F32\"", "[2.0]", "[0,8]") + '}',
      8,
      "a.shape[0]: expected an integer");
  expect(
      '{' + entry("a", "\"F32\"", "[02]", "[0,8]") + '}',
      8,
      "expected an integer");
  expect(
      '{' + entry("a", "\"F32\"", "[-2]", "[0,8]") + '}',
      8,
      "expected an integer");
  expect(
      '{' +
          entry(
              "a",
              "\"F32\"",
              "[4611686018427387904,4611686018427387904]",
              "[0,8]") +
          '}',
      8,
      "too large");
  expect(
      '{' + entry("a", "\"F32\"", "[99999999999999999999]", "[0,8]") + '}',
      8,
      "expected an integer");
  expect(
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}",
      8,
      "\"data_offsets\" is missing");
  expect(
      "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}",
      8,
      "a.dtype: is there twice");
  expect("{\"__metadata__\":{\"x\":1}}", 0, "__metadata__.x");
  expect("{\"__metadata__\":{\"x\":\"1\",\"x\":\"1\"}}", 0, "twice");
  expect("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice");
  expect("{} x", 0, "end of the text");
  expect(" {}", 0, "'{'");
  expect("", 0, "'{'");
  expect("{", 0, "expected a string");
  expect("{\"a\":{\"x\":" + std::string(100, '['), 0, "levels");
}

TEST(Safetensors, RefusesHeadersThatAreNotInTheFile) {
  const std::string bytes = file_of("{}");
  const auto size = [&](std::size_t count, std::uint64_t file_bytes) {
    return refusal<CheckpointError>([&] {
      (void)header_size(
          std::as_bytes(std::span(bytes).first(count)), file_bytes, "x");
    });
  };
  EXPECT_EQ(size(8, 10), "");
  EXPECT_NE(size(8, 9), "");
  EXPECT_NE(size(7, 10), "");
  EXPECT_NE(size(8, 7), "");
  const std::string huge = "\xff\xff\xff\xff\xff\xff\xff\xff";
  EXPECT_NE(
      refusal<CheckpointError>([&] {
        (void)header_size(std::as_bytes(std::span(huge)), UINT64_MAX, "x");
      }),
      "");
  EXPECT_NE(
      refusal<CheckpointError>(
          [&] { (void)parse_header(bytes + ' ', 11, "x"); }),
      "");
}

TEST(Safetensors, PiecesSayWhereTheyBelong) {
  const auto metadata = piece_metadata(
      {{{"a", DType::kF32, {4, 6}}, {{2, 0}, {2, 6}}},
       {{"b", DType::kF32, {}}, {}}});
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(metadata.at("DCP_VERSION"), "1.0");
  EXPECT_EQ(
      nlohmann::json::parse(metadata.at("DCP_SHARDING_INFO")),
      nlohmann::json::parse(
          R"({"a":{"saved_offsets":[2,0]},"b":{"saved_offsets":[]}})"));
  EXPECT_EQ(
      nlohmann::json::parse(metadata.at("argosy.whole_shapes")),
      nlohmann::json::parse(R"({"a":[4,6],"b":[]})"));
  const TensorInfo a{"a", DType::kF32, {2}};
  EXPECT_NE(
      refusal([&] {
        (void)piece_metadata({{a, {{0}, {1}}}, {a, {{1}, {1}}}});
      }),
      "");
}

} // namespace
} // namespace argosy::checkpoint
