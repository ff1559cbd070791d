#include "argosy/data/token_files.h"

#include <memory>
#include <string_view>

#include "argosy/common/file.h"
#include "argosy/data/field_reader.h"
#include "argosy/data/mapped_file.h"
#include "argosy/data/megatron_file.h"

namespace argosy::data {

namespace {

constexpr std::size_t kLlmcHeader = 256 * sizeof(std::int32_t);

struct LlmcKind {
  std::int32_t magic;
  std::int32_t version;
  TokenType type;
};
constexpr LlmcKind kGpt2{20240520, 1, TokenType::U16};
constexpr LlmcKind kLlama3{20240801, 7, TokenType::U32};

bool is_llmc(const MappedFile& file) {
  // A short file without header must not fail in FieldReader.
  if (file.size() < kLlmcHeader) {
    return false;
  }
  const auto magic = FieldReader(file).next<std::int32_t>("magic");
  return magic == kGpt2.magic || magic == kLlama3.magic;
}

Tokens read_llmc(const std::shared_ptr<const MappedFile>& file) {
  FieldReader fields(*file);
  const auto magic = fields.next<std::int32_t>("magic");
  fields.check(
      magic == kGpt2.magic || magic == kLlama3.magic,
      magic,
      "20240520 or 20240801 as llm.c writes");
  const LlmcKind& kind = magic == kGpt2.magic ? kGpt2 : kLlama3;
  const auto version = fields.next<std::int32_t>("version");
  fields.check(version == kind.version, version, kind.version);
  const auto count = fields.next<std::int32_t>("number of tokens");
  fields.check(count >= 0, count, "0 or more");
  const std::size_t size = count * size_of(kind.type);
  fields.check_file_size(kLlmcHeader + size);
  const auto bytes = file->bytes().subspan(kLlmcHeader, size);
  return {file, bytes, kind.type, file->name()};
}

Tokens read_nanogpt(const std::shared_ptr<const MappedFile>& file) {
  return {file, file->bytes(), TokenType::U16, file->name()};
}

} // namespace

Tokens open_llmc(const std::filesystem::path& path) {
  return read_llmc(std::make_shared<const MappedFile>(path));
}

Tokens open_tokens(const std::filesystem::path& path) {
  auto index = path;
  // A Megatron .bin file has no header; only its index identifies it. NanoGPT's
  // has none either, so it is what remains.
  if (std::filesystem::exists(index.replace_extension(".idx"))) {
    return MegatronFile(path).tokens();
  }
  const auto file = std::make_shared<const MappedFile>(path);
  return is_llmc(*file) ? read_llmc(file) : read_nanogpt(file);
}

void write_nanogpt(
    const std::filesystem::path& path, std::span<const std::int64_t> tokens) {
  const auto bytes = pack_tokens(tokens, TokenType::U16);
  write_file(
      path,
      std::string_view(
          reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

} // namespace argosy::data
