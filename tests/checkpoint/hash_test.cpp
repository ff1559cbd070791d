#include "argosy/checkpoint/hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "argosy/checkpoint/boxes.h"
#include "argosy/checkpoint/hash_kernels.h"
#include "tests/checkpoint/random_boxes.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using testing::refusal;
using Bytes = std::vector<unsigned char>;

Bytes random_bytes(RandomBoxes& random, std::size_t count) {
  Bytes bytes(count);
  for (unsigned char& byte : bytes) {
    byte = static_cast<unsigned char>(random.number(0, 255));
  }
  return bytes;
}

Hash128 hash_of(const Bytes& bytes) {
  return hash_bytes(std::as_bytes(std::span(bytes)));
}

// Computed with the library's own XXH3_128bits().
TEST(Hash, IsXxh3) {
  const std::map<std::size_t, std::string> expected = {
      {0, "99aa06d3014798d86001c324468d497f"},
      {5, "5787f33cbc36d4c8d3497975144f78a7"},
      {100, "2207ed96998d91f20cc97f05750182b2"},
      {200, "32200a52a918beaf380142cdd5843bbd"},
      {1000, "6bcc7eff62da44c26c4f14bd97bd9e82"},
      {100000, "d9e155dd16e141d00c056f6fcc340974"},
  };
  for (const auto& [count, hex] : expected) {
    Bytes bytes(count);
    for (std::size_t i = 0; i < count; ++i) {
      bytes[i] = static_cast<unsigned char>(i * 7 + 3);
    }
    EXPECT_EQ(to_hex(hash_of(bytes)), hex) << count;
  }
}

TEST(Hash, HexGoesBothWays) {
  const Hash128 hash{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(to_hex(hash), "fedcba98765432100123456789abcdef");
  EXPECT_EQ(hash_of_hex(to_hex(hash)), hash);
  for (const char* bad :
       {"",
        "fedcba98765432100123456789abcde",
        "fedcba98765432100123456789abcdef0",
        "fedcba98765432100123456789abcdeg",
        "FEDCBA98765432100123456789ABCDEF"}) {
    EXPECT_NE(refusal<CheckpointError>([&] { (void)hash_of_hex(bad); }), "");
  }
}

std::vector<simd::Isa> isas() {
  std::vector<simd::Isa> all = {simd::Isa::Baseline};
  for (const auto isa : {simd::Isa::Avx2, simd::Isa::Avx512}) {
    if (isa <= simd::highest_isa()) {
      all.push_back(isa);
    }
  }
  return all;
}

TEST(Hash, InstructionSetsAgree) {
  RandomBoxes random(31);
  RowKeys keys;
  const Bytes noise = random_bytes(random, sizeof(keys));
  std::memcpy(&keys, noise.data(), sizeof(keys));
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t pair = 0; pair < RowKeys::kPairs; ++pair) {
      keys.even_upper[lane][pair] = keys.even[lane][pair] >> 32;
      keys.odd_upper[lane][pair] = keys.odd[lane][pair] >> 32;
    }
  }
  const Bytes data = random_bytes(random, 5000);
  for (std::size_t i = 0; i < 300; ++i) {
    const std::size_t first = i % RowKeys::kPairs;
    const auto count = static_cast<std::size_t>(
        random.number(0, static_cast<std::int64_t>(RowKeys::kPairs - first)));
    std::set<std::vector<std::uint64_t>> results;
    for (const simd::Isa isa : isas()) {
      std::vector<std::uint64_t> out(4);
      hash_kernels(isa).sum_pairs(
          keys, first, data.data() + i % 13, count, out.data());
      hash_kernels(isa).hash_bytes(data.data() + i % 7, 9 * i, &out[2]);
      results.insert(out);
    }
    ASSERT_EQ(results.size(), 1u);
  }
}

TEST(Hash, OfBytesInParts) {
  RandomBoxes random(32);
  const Bytes data = random_bytes(random, 70000);
  const auto bytes = std::as_bytes(std::span(data));
  for (int i = 0; i < 50; ++i) {
    const auto size = static_cast<std::size_t>(random.number(0, 70000));
    BytesHash hash;
    for (std::size_t begin = 0; begin < size;) {
      const auto count = std::min(
          size - begin, static_cast<std::size_t>(random.number(1, 3000)));
      hash.add(bytes.subspan(begin, count));
      begin += count;
    }
    EXPECT_EQ(hash.result(), hash_bytes(bytes.first(size))) << size;
  }
}

std::uint64_t split_mix(std::uint64_t n) {
  std::uint64_t z = n * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// The sum as docs/checkpoint-format.md defines it, byte by byte.
Hash128 sum_by_definition(const Bytes& block) {
  std::uint64_t sums[2] = {0, 0};
  for (std::uint64_t lane = 0; lane < 2; ++lane) {
    const std::uint64_t before = lane * (1 + 1024 + 256);
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::uint64_t word = i / 4;
      const std::uint64_t row = split_mix(before + 2 + word / 256) | 1;
      const std::uint64_t column =
          split_mix(before + 2 + 1024 + word % 256) | 1;
      sums[lane] += (split_mix(before + 1) | 1) +
          (std::uint64_t{block[i]} << 8 * (i % 4)) * row * column;
    }
  }
  return {sums[0], sums[1]};
}

TEST(BlockSums, AreAsDefined) {
  RandomBoxes random(32);
  const Bytes data = random_bytes(random, kBlockBytes + 1003);
  const auto count = static_cast<std::int64_t>(data.size());
  BlockSums sums({"x", DType::kU8, {count}});
  sums.add(dtensor::whole({count}), 0, count, data.data());
  ASSERT_EQ(sums.num_blocks(), 2);
  ASSERT_EQ(sums.sums().size(), 2u);
  EXPECT_EQ(
      sums.sums().at(0),
      sum_by_definition(Bytes(data.begin(), data.begin() + kBlockBytes)));
  EXPECT_EQ(
      sums.sums().at(1),
      sum_by_definition(Bytes(data.begin() + kBlockBytes, data.end())));
}

// The bytes of a box of a tensor, one after the other.
Bytes part_of(const Bytes& data, const TensorInfo& info, const Box& box) {
  const std::size_t element = element_bytes(info.dtype);
  Bytes part;
  for_each_run(
      box, 0, box.numel(), dtensor::whole(info.shape), [&](const auto& run) {
        const auto* from =
            data.data() + static_cast<std::size_t>(run.to) * element;
        part.insert(
            part.end(),
            from,
            from + static_cast<std::size_t>(run.count) * element);
      });
  return part;
}

Hash128 root_of_whole(const TensorInfo& info, const Bytes& data) {
  BlockSums sums(info);
  sums.add(
      dtensor::whole(info.shape), 0, dtensor::numel(info.shape), data.data());
  return sums.root();
}

constexpr DType kDTypes[] = {
    DType::kBool, DType::kBF16, DType::kF32, DType::kC64};

TEST(BlockSums, AreEqualOnAllLayouts) {
  RandomBoxes random(33);
  for (int i = 0; i < 120; ++i) {
    const bool large = i % 20 == 0;
    TensorInfo info{
        "x", kDTypes[i % 4], large ? Shape{700, 901} : random.shape(4, 1, 12)};
    const auto count = static_cast<std::size_t>(dtensor::numel(info.shape));
    const Bytes data = random_bytes(random, count * element_bytes(info.dtype));
    const Hash128 root = root_of_whole(info, data);
    // Parts of boxes on different ranks, whose sums are added.
    BlockSums total(info);
    for (const Box& box : random.partition(info.shape, 9)) {
      const Bytes part = part_of(data, info, box);
      const std::int64_t cut = random.number(0, box.numel());
      BlockSums of_rank(info);
      of_rank.add(box, 0, cut, part.data());
      of_rank.add(
          box,
          cut,
          box.numel(),
          part.data() +
              static_cast<std::size_t>(cut) * element_bytes(info.dtype));
      total.add(of_rank);
    }
    ASSERT_EQ(total.root(), root) << info;
  }
}

TEST(BlockSums, ChangeWithEachBit) {
  RandomBoxes random(34);
  const TensorInfo info{"x", DType::kF32, {130, 9}};
  Bytes data = random_bytes(random, 130 * 9 * 4);
  std::set<Hash128> roots = {root_of_whole(info, data)};
  std::size_t tried = 1;
  for (std::size_t bit = 0; bit < data.size() * 8; bit += 7, ++tried) {
    data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    roots.insert(root_of_whole(info, data));
    data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
  }
  EXPECT_EQ(roots.size(), tried);
}

// Few different values, signs flipped in pairs: what weak sums would miss.
TEST(BlockSums, ChangeWithSwapsMovesAndPairsOfSigns) {
  RandomBoxes random(35);
  const std::int64_t count = 3000;
  const TensorInfo info{"x", DType::kF64, {count}};
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) {
    value = static_cast<double>(random.number(-2, 2));
  }
  const auto root = [&] {
    BlockSums sums(info);
    sums.add(dtensor::whole(info.shape), 0, count, values.data());
    return sums.root();
  };
  const Hash128 before = root();
  for (int i = 0; i < 2000; ++i) {
    double& a = values[static_cast<std::size_t>(random.number(0, count - 1))];
    double& b = values[static_cast<std::size_t>(random.number(0, count - 1))];
    const double kept_a = a;
    const double kept_b = b;
    if (i % 3 == 0) {
      std::swap(a, b);
    } else if (i % 3 == 1) {
      b = std::exchange(a, 0.0);
    } else {
      a = -a;
      b = &a == &b ? b : -b;
    }
    // -0.0 differs from 0.0 in its bits.
    const bool same =
        std::memcmp(&a, &kept_a, 8) == 0 && std::memcmp(&b, &kept_b, 8) == 0;
    ASSERT_EQ(root() == before, same) << i;
    b = kept_b;
    a = kept_a;
  }
}

TEST(BlockSums, RootsCoverTypeShapeAndBlocks) {
  const Bytes data(16 * 8, 0);
  std::set<Hash128> roots;
  roots.insert(root_of_whole({"x", DType::kF32, {4, 4}}, data));
  roots.insert(root_of_whole({"x", DType::kI32, {4, 4}}, data));
  roots.insert(root_of_whole({"x", DType::kF32, {16}}, data));
  roots.insert(root_of_whole({"x", DType::kF32, {15}}, data));
  roots.insert(root_of_whole({"x", DType::kF32, {}}, data));
  roots.insert(root_of_whole({"x", DType::kF32, {0}}, data));
  roots.insert(root_of_whole({"x", DType::kF32, {0, 4}}, data));
  EXPECT_EQ(roots.size(), 7u);
  EXPECT_EQ(
      root_of_whole({"x", DType::kF32, {4, 4}}, data),
      root_of_whole({"another name", DType::kF32, {4, 4}}, data));
}

TEST(BlockSums, RefusesWhatIsIncomplete) {
  const TensorInfo info{"x", DType::kU8, {3 * (1 << 20)}};
  BlockSums sums(info);
  sums.set(0, {1, 2});
  sums.set(2, {1, 2});
  EXPECT_NE(
      refusal([&] { (void)sums.root(); }).find("2 blocks"), std::string::npos);
  sums.set(1, {1, 2});
  EXPECT_EQ(refusal([&] { (void)sums.root(); }), "");
  EXPECT_NE(refusal([&] { sums.add({{0}, {1 << 30}}, 0, 1, nullptr); }), "");
  EXPECT_NE(refusal([&] { sums.add(BlockSums({"y", DType::kU8, {1}})); }), "");
}

TEST(Roots, DependOnNamesAndRoots) {
  const std::set<Hash128> roots = {
      root_of({}),
      root_of({{"a", {1, 2}}}),
      root_of({{"a", {2, 1}}}),
      root_of({{"b", {1, 2}}}),
      root_of({{"a", {1, 2}}, {"b", {1, 2}}})};
  EXPECT_EQ(roots.size(), 5u);
}

} // namespace
} // namespace argosy::checkpoint
