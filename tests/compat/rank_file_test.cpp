// Files of ranks: safetensors both ways, MindSpore's .ckpt to read.

#include "argosy/compat/rank_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy::compat {
namespace {

using checkpoint::DType;
using checkpoint::Shape;
using ::testing::HasSubstr;

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>((value & 0x7f) | 0x80);
  }
  return bytes + static_cast<char>(value);
}

std::string field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) +
      varint(bytes.size()) + bytes;
}

std::string value(
    const std::string& tag,
    const std::vector<std::uint64_t>& dims,
    const std::string& type,
    const std::string& content) {
  std::string tensor;
  for (const auto size : dims) {
    tensor += varint(1 << 3) + varint(size);
  }
  tensor += field(2, type) + field(3, content);
  return field(1, field(1, tag) + field(2, tensor));
}

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string message_of(const std::filesystem::path& file) {
  try {
    RankFile{file};
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

TEST(RankFile, SurvivesAWrite) {
  const TempDir folder;
  const auto path = folder.path() / "new" / "a.safetensors";
  const auto letters = [](char c) {
    return [c](std::span<std::byte> bytes) {
      std::memset(bytes.data(), c, bytes.size());
    };
  };
  write_rank_file(
      path,
      {{{"b", DType::kBF16, {2, 3}},
        letters('b'),
        Shape{4, 3},
        {{2, 0}, {2, 3}}},
       {{"s", DType::kI64, {}}, letters('s'), {}, {}},
       {{"none", DType::kF32, {0, 3}}, [](auto) {}, {}, {}}},
      {{"remove_redundancy", "False"}});
  const RankFile file(path);
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(text(file.find("b")->bytes), std::string(12, 'b'));
  EXPECT_EQ(text(file.find("s")->bytes), std::string(8, 's'));
  EXPECT_EQ(file.find("none")->info.shape, (Shape{0, 3}));
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_EQ(file.metadata().at("remove_redundancy"), "False");
  EXPECT_GE(file.metadata().size(), 2u); // where the slice is
  EXPECT_EQ(
      std::distance(
          std::filesystem::directory_iterator(path.parent_path()), {}),
      1); // no temporary file
}

TEST(RankFile, ReadsCkptOfMindSpore) {
  const TempDir folder;
  const auto path = folder.path() / "net-1_1.ckpt";
  write_file(
      path,
      value("fc.weight", {2, 3}, "Float32", std::string(16, 'a')) +
          value("step_num", {0}, "Int32", std::string(4, 'n')) +
          value("fc.weight", {2, 3}, "Float32", std::string(8, 'b')) +
          value("h", {2}, "mindspore.bfloat16", "1234"));
  const RankFile file(path);
  EXPECT_EQ(
      file.find("fc.weight")->info,
      (checkpoint::TensorInfo{"fc.weight", DType::kF32, {2, 3}}));
  EXPECT_EQ(
      text(file.find("fc.weight")->bytes),
      std::string(16, 'a') + std::string(8, 'b'));
  EXPECT_EQ(
      file.find("step_num")->info,
      (checkpoint::TensorInfo{"step_num", DType::kI32, {}}));
  EXPECT_EQ(file.find("h")->info.dtype, DType::kBF16);
}

TEST(RankFile, ErrorsNameFileAndTensor) {
  const TempDir folder;
  const auto ckpt = folder.path() / "a.ckpt";
  write_file(ckpt, value("w", {2, 3}, "Float32", "12345"));
  EXPECT_THAT(
      message_of(ckpt),
      ::testing::AllOf(HasSubstr("a.ckpt"), HasSubstr("w F32 [2, 3]")));
  write_file(ckpt, value("w", {2}, "String", "12"));
  EXPECT_THAT(message_of(ckpt), HasSubstr("String"));
  write_file(ckpt, field(1, field(1, "map") + field(3, "x")));
  EXPECT_THAT(message_of(ckpt), HasSubstr("hash table"));
  write_file(ckpt, std::string(100, '\xff'));
  EXPECT_THAT(message_of(ckpt), HasSubstr("a.ckpt"));
  EXPECT_THAT(message_of(folder.path() / "absent.ckpt"), HasSubstr("absent"));
  const auto other = folder.path() / "a.safetensors";
  write_file(other, "123");
  EXPECT_THAT(message_of(other), HasSubstr("a.safetensors"));
}

TEST(RankFile, DamagedCkptIsAnErrorOrAnotherValue) {
  const TempDir folder;
  const auto path = folder.path() / "a.ckpt";
  const std::string good = value("w", {2, 3}, "Float32", std::string(24, 'a')) +
      value("b", {3}, "Float16", std::string(6, 'b'));
  std::mt19937 random(31);
  for (int round = 0; round < 200; ++round) {
    std::string bad = good;
    for (int i = 0; i < 3; ++i) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    bad.resize(bad.size() - random() % 4);
    write_file(path, bad);
    try {
      const RankFile file(path);
      for (const auto& [name, entry] : file.tensors()) {
        EXPECT_EQ(bytes_of(entry.info), entry.bytes.size());
      }
    } catch (const CheckpointError&) {
    }
  }
}

TEST(RankFile, NumbersInNamesAreNumbers) {
  EXPECT_TRUE(natural_less("net-9_1", "net-10_1"));
  EXPECT_FALSE(natural_less("net-10_1", "net-9_1"));
  EXPECT_TRUE(natural_less("a", "b"));
  EXPECT_TRUE(natural_less("a1", "a1b"));
  EXPECT_FALSE(natural_less("a01", "a1"));
  EXPECT_FALSE(natural_less("", ""));
  EXPECT_TRUE(natural_less("net-0_2", "net-00_10"));
}

} // namespace
} // namespace argosy::compat
