#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "argosy/checkpoint/manifest.h"
#include "argosy/checkpoint/safetensors.h"
#include "argosy/common/error.h"
#include "tests/checkpoint/fuzz.h"
#include "tests/checkpoint/sample_manifest.h"

// 10^5 damaged inputs for each reader: an error each, or what they say; no
// crash, no large allocation.

namespace {

std::atomic<std::size_t> allocated{0}; // since the last reset

} // namespace

// Not inlined: the compiler would see that free() ends what new began.
[[gnu::noinline]] void* operator new(
    std::size_t bytes, const std::nothrow_t&) noexcept {
  allocated += bytes;
  return std::malloc(bytes);
}

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) {
    return memory;
  }
  throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace argosy::checkpoint {
namespace {

constexpr int kInputs = 100'000;

// All that parsing allocates, also what it frees again: a multiple of the
// input, and what an error message takes.
std::size_t allowance(const std::string& text) {
  return 64 * text.size() + (32 << 10);
}

// So that a change makes another manifest rather than damage.
std::string without_hash(std::string text) {
  return text.erase(text.find(kManifestHashField)) + "}\n";
}

TEST(Fuzz, Manifests) {
  Manifest many = sample_manifest();
  many.tensors.clear();
  for (int i = 0; i < 20; ++i) {
    const std::int64_t rows = 8;
    TensorRecord tensor{{str("t", 100 + i), DType::kF32, {rows, 3}}, {}, {}};
    for (std::int64_t row = 0; row < rows; row += 2) {
      tensor.pieces.push_back(
          {{{row, 0}, {2, 3}}, 0, 4096, {Hash128{1, 2}}, {}});
    }
    many.tensors.push_back(tensor);
  }
  Mutator mutator(
      {to_text(sample_manifest()),
       without_hash(to_text(sample_manifest())),
       without_hash(to_text(sample_manifest(true))),
       without_hash(to_text(many)),
       without_hash(to_text({}))},
      41);
  int parsed = 0;
  for (int i = 0; i < kInputs; ++i) {
    const std::string text = mutator.next();
    allocated = 0;
    try {
      const Manifest manifest = parse_manifest(text, "m");
      ASSERT_LT(allocated, allowance(text)) << text;
      ASSERT_EQ(parse_manifest(to_text(manifest), "m"), manifest) << text;
      ++parsed;
    } catch (const CheckpointError&) {
      ASSERT_LT(allocated, allowance(text)) << text;
    }
  }
  // Most changes are found; some, as of a hash's digit, make another manifest.
  EXPECT_GT(parsed, 0);
  EXPECT_LT(parsed, kInputs / 3);
}

std::string header_of(
    const std::vector<TensorInfo>& tensors,
    const std::map<std::string, std::string>& metadata) {
  return header_bytes(lay_out(tensors, metadata, 8));
}

// What was read is what a file of the same tensors says.
void expect_same_written(const SafetensorsHeader& header) {
  std::vector<TensorInfo> infos;
  for (const StoredTensor& tensor : header.tensors) {
    infos.push_back(tensor.info);
  }
  const SafetensorsHeader written = lay_out(infos, header.metadata);
  ASSERT_EQ(
      parse_header(header_bytes(written), written.file_bytes, "x"), written);
  ASSERT_EQ(
      written.file_bytes - written.data_begin,
      header.file_bytes - header.data_begin);
}

TEST(Fuzz, SafetensorsHeaders) {
  std::vector<TensorInfo> many;
  for (int i = 0; i < 30; ++i) {
    many.push_back({str("layer.", i), DType::kBF16, {i, 4}});
  }
  const std::vector<TensorInfo> few = {
      {"a", DType::kF32, {2, 3}},
      {"b", DType::kI64, {}},
      {"c \xc3\xa9", DType::kU8, {0}}};
  Mutator mutator(
      {header_of(few, {{"format", "pt"}, {"x", "\"\\"}}),
       header_of(many, {}),
       header_of({}, {})},
      42);
  int parsed = 0;
  for (int i = 0; i < kInputs; ++i) {
    std::string text = mutator.next();
    // Mostly a length that fits, so that the JSON is looked at.
    if (i % 8 != 0 && text.size() >= 8) {
      for (std::size_t k = 0; k < 8; ++k) {
        text[k] = static_cast<char>((text.size() - 8) >> 8 * k & 255);
      }
    }
    const std::uint64_t data = i % 3 == 0 ? 32 : i % 3 == 1 ? 3480 : 0;
    allocated = 0;
    try {
      const SafetensorsHeader header =
          parse_header(text, text.size() + data, "x");
      ASSERT_LT(allocated, allowance(text)) << text;
      expect_same_written(header);
      ++parsed;
    } catch (const CheckpointError&) {
      ASSERT_LT(allocated, allowance(text)) << text;
    }
  }
  EXPECT_GT(parsed, 0);
  EXPECT_LT(parsed, kInputs / 3);
}

} // namespace
} // namespace argosy::checkpoint
