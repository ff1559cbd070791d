#include "argosy/data/megatron_file.h"

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/field_reader.h"
#include "argosy/data/mapped_file.h"

namespace argosy::data {

namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kVersion = 1;

// Indexed by Megatron's dtype code; 6 and 7 are floating point.
constexpr std::array<std::optional<TokenType>, 9> kTypes{
    std::nullopt,
    TokenType::U8,
    TokenType::I8,
    TokenType::I16,
    TokenType::I32,
    TokenType::I64,
    std::nullopt,
    std::nullopt,
    TokenType::U16};

std::uint8_t code_of(TokenType type) {
  for (std::size_t code = 0; code < kTypes.size(); ++code) {
    if (kTypes[code] == type) {
      return static_cast<std::uint8_t>(code);
    }
  }
  throw InvalidArgument(str_format(
      "[data.megatron] the format has no {}, expected uint8, int8, int16, "
      "int32, int64 or uint16",
      name_of(type)));
}

template <typename T>
T element(std::span<const std::byte> array, std::int64_t index) {
  T value;
  // A header of 34 bytes precedes the arrays, so they are not aligned.
  std::memcpy(
      &value,
      array.data() + static_cast<std::size_t>(index) * sizeof(T),
      sizeof(T));
  return value;
}

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::filesystem::path with_ending(
    std::filesystem::path prefix, const char* ending) {
  return prefix += ending;
}

std::filesystem::path prefix_of(std::filesystem::path path) {
  const auto ending = path.extension();
  return ending == ".bin" || ending == ".idx" ? path.replace_extension() : path;
}

TokenType read_type(FieldReader& fields) {
  const auto magic = fields.next_bytes("magic", kMagic.size());
  fields.check(
      std::memcmp(magic.data(), kMagic.data(), kMagic.size()) == 0,
      "something else",
      "MMIDIDX and two zeros");
  const auto version = fields.next<std::uint64_t>("version");
  fields.check(version == kVersion, version, kVersion);
  const auto code = fields.next<std::uint8_t>("type of tokens");
  fields.check(
      code < kTypes.size() && kTypes[code],
      static_cast<int>(code),
      "1 to 5 or 8, an integer type");
  return *kTypes[code];
}

// Lengths of the arrays in an index.
struct Counts {
  std::int64_t sequences;
  std::int64_t boundaries; // of documents: one more than their number
};

// Checks each count against the file size before multiplying with it, so that a
// corrupt header cannot cause an overflow.
Counts read_counts(FieldReader& fields) {
  // A sequence takes 12 bytes of the index: a length of 4 and an offset of 8. A
  // boundary takes 8.
  const auto sequences = fields.next<std::uint64_t>("number of sequences");
  fields.check(
      sequences <= fields.bytes_left() / 12,
      sequences,
      str("at most ", fields.bytes_left() / 12, " by the file's size"));
  const auto boundaries = fields.next<std::uint64_t>("number of documents");
  fields.check(
      boundaries >= 1 && boundaries <= fields.bytes_left() / 8,
      boundaries,
      str("1 to ", fields.bytes_left() / 8, " by the file's size"));
  return {
      static_cast<std::int64_t>(sequences),
      static_cast<std::int64_t>(boundaries)};
}

} // namespace

MegatronFile::MegatronFile(const std::filesystem::path& path)
    : tokens_(std::span<const std::int64_t>()) {
  const auto prefix = prefix_of(path);
  index_ = std::make_shared<const MappedFile>(with_ending(prefix, ".idx"));
  const auto bin =
      std::make_shared<const MappedFile>(with_ending(prefix, ".bin"));
  FieldReader fields(*index_);
  const TokenType type = read_type(fields);
  tokens_ = Tokens(bin, bin->bytes(), type, bin->name());
  const Counts counts = read_counts(fields);
  num_sequences_ = counts.sequences;
  num_documents_ = counts.boundaries - 1;
  lengths_ = fields.next_bytes("lengths", counts.sequences * 4);
  offsets_ = fields.next_bytes("offsets", counts.sequences * 8);
  documents_ = fields.next_bytes("documents", counts.boundaries * 8);
  // One byte per sequence may follow: the modes of multimodal data.
  const std::size_t left = fields.bytes_left();
  fields.check_file_size(
      index_->size() - left +
      (left == 0 ? 0 : static_cast<std::size_t>(counts.sequences)));
  check_sequences();
  check_documents();
}

void MegatronFile::check_sequences() const {
  const auto width = static_cast<std::int64_t>(size_of(tokens_.type()));
  for (std::int64_t i = 0; i < num_sequences_; ++i) {
    const auto length = element<std::int32_t>(lengths_, i);
    const auto offset = element<std::int64_t>(offsets_, i);
    ARGOSY_CHECK(
        // Subtracts the length: adding it to a corrupt offset could overflow.
        length >= 0 && offset >= 0 && offset % width == 0 &&
            offset / width <= tokens_.size() - length,
        "[data.tokens] {}: sequence {} has {} tokens at byte {}, expected "
        "within the {} tokens of {}",
        index_->name(),
        i,
        length,
        offset,
        tokens_.size(),
        tokens_.name());
  }
}

void MegatronFile::check_documents() const {
  std::int64_t lowest = 0;
  for (std::int64_t i = 0; i <= num_documents_; ++i) {
    const auto boundary = element<std::int64_t>(documents_, i);
    // The first boundary is 0, the last the number of sequences, and none is
    // below its predecessor.
    const bool last = i == num_documents_;
    lowest = last ? num_sequences_ : lowest;
    const std::int64_t highest = i == 0 ? 0 : num_sequences_;
    ARGOSY_CHECK(
        boundary >= lowest && boundary <= highest,
        "[data.tokens] {}: boundary {} of documents is {}, expected {} to {}",
        index_->name(),
        i,
        boundary,
        lowest,
        highest);
    lowest = boundary;
  }
}

Tokens MegatronFile::sequence(std::int64_t index) const {
  ARGOSY_CHECK(
      index >= 0 && index < num_sequences_,
      "[data.megatron] {}: sequence {}, expected 0 to {}",
      tokens_.name(),
      index,
      num_sequences_ - 1);
  const auto begin = element<std::int64_t>(offsets_, index) /
      static_cast<std::int64_t>(size_of(tokens_.type()));
  return tokens_.slice(begin, begin + element<std::int32_t>(lengths_, index));
}

std::pair<std::int64_t, std::int64_t> MegatronFile::document(
    std::int64_t index) const {
  ARGOSY_CHECK(
      index >= 0 && index < num_documents_,
      "[data.megatron] {}: document {}, expected 0 to {}",
      tokens_.name(),
      index,
      num_documents_ - 1);
  return {
      element<std::int64_t>(documents_, index),
      element<std::int64_t>(documents_, index + 1)};
}

// Megatron's own limit, so that both choose the same type.
TokenType megatron_type(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::U16 : TokenType::I32;
}

MegatronWriter::MegatronWriter(std::filesystem::path prefix, TokenType type)
    : prefix_(std::move(prefix)), type_(type) {
  code_of(type); // throws for an unsupported type
  // Another name until finish(), so that nobody reads half a file.
  bin_.open(partial_path(), std::ios::binary | std::ios::trunc);
  check_bin();
}

MegatronWriter::~MegatronWriter() {
  if (!finished_) {
    bin_.close();
    std::error_code ignored;
    std::filesystem::remove(partial_path(), ignored);
  }
}

std::filesystem::path MegatronWriter::partial_path() const {
  return with_ending(prefix_, ".bin.partial");
}

void MegatronWriter::check_bin() const {
  if (!bin_) {
    throw SystemError(
        with_errno(str("[data.megatron] ", partial_path().string())));
  }
}

void MegatronWriter::add_sequence(std::span<const std::int64_t> tokens) {
  ARGOSY_CHECK(
      std::in_range<std::int32_t>(tokens.size()),
      "[data.megatron] a sequence of {} tokens, expected less than 2^31",
      tokens.size());
  const auto bytes = pack_tokens(tokens, type_);
  bin_.write(
      reinterpret_cast<const char*>(bytes.data()),
      static_cast<std::streamsize>(bytes.size()));
  check_bin();
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
}

void MegatronWriter::end_document() {
  documents_.push_back(static_cast<std::int64_t>(lengths_.size()));
}

std::string MegatronWriter::index() const {
  std::string out(kMagic);
  append(out, kVersion);
  append(out, code_of(type_));
  append(out, static_cast<std::uint64_t>(lengths_.size()));
  append(out, static_cast<std::uint64_t>(documents_.size()));
  for (const std::int32_t length : lengths_) {
    append(out, length);
  }
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    append(out, offset);
    offset += length * static_cast<std::int64_t>(size_of(type_));
  }
  for (const std::int64_t boundary : documents_) {
    append(out, boundary);
  }
  return out;
}

void MegatronWriter::finish() {
  ARGOSY_CHECK(
      documents_.back() == static_cast<std::int64_t>(lengths_.size()),
      "[data.megatron] {}: sequences after the last document, expected "
      "end_document()",
      prefix_.string());
  bin_.close();
  check_bin();
  std::error_code failed;
  std::filesystem::rename(partial_path(), with_ending(prefix_, ".bin"), failed);
  if (failed) {
    throw SystemError(
        str("[data.megatron] ", prefix_.string(), ".bin: ", failed.message()));
  }
  finished_ = true;
  // The index comes last: whoever finds it finds all of the .bin file.
  write_file(with_ending(prefix_, ".idx"), index());
}

} // namespace argosy::data
