#include "argosy/serving/export_file.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "argosy/checkpoint/hash.h"
#include "argosy/common/error.h"
#include "argosy/common/json.h"
#include "argosy/common/text.h"
#include "argosy/data/mapped_file.h"
#include "argosy/serving/export_layout.h"

namespace argosy::serving {

namespace {

constexpr std::string_view kBaseEnding = ".base";
constexpr std::string_view kDeltaEnding = ".delta";
constexpr std::size_t kDigits = 8;
constexpr std::uint64_t kMostDim = std::uint64_t{1} << 30; // no overflow

std::unique_ptr<data::MappedFile> mapped(const std::filesystem::path& path) {
  try {
    return std::make_unique<data::MappedFile>(path);
  } catch (const Error& error) {
    throw CheckpointError(str("[serving.open] ", error.what()));
  }
}

template <typename T>
T value_at(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Whether `count` things of `size` bytes fit between `at` and `end`.
bool fits(
    std::uint64_t at,
    std::uint64_t count,
    std::uint64_t size,
    std::uint64_t end) {
  return at <= end && count <= (end - at) / size;
}

} // namespace

std::string file_name(const ExportName& name) {
  std::string digits = str(name.number);
  if (digits.size() < kDigits) {
    digits.insert(0, kDigits - digits.size(), '0');
  }
  return str(digits, name.is_base() ? kBaseEnding : kDeltaEnding);
}

std::optional<ExportName> parse_file_name(std::string_view name) {
  const bool is_base = name.ends_with(kBaseEnding);
  if (!is_base && !name.ends_with(kDeltaEnding)) {
    return std::nullopt;
  }
  const auto number = parse_int(name.substr(0, name.rfind('.')));
  if (!number || *number < 1) {
    return std::nullopt;
  }
  const ExportName parsed{
      static_cast<std::uint64_t>(*number),
      is_base ? ExportKind::Base : ExportKind::Delta};
  return file_name(parsed) == name ? std::optional(parsed) : std::nullopt;
}

std::string to_json(const ExportDirectory& directory) {
  nlohmann::json tables = nlohmann::json::array();
  for (const ExportTable& table : directory.tables) {
    tables.push_back(
        {{"name", table.name},
         {"dim", table.dim},
         {"num_rows", table.num_rows},
         {"rows_at", table.rows_at},
         {"keys_at", table.keys_at},
         {"slots_at", table.slots_at},
         {"num_slots", table.num_slots}});
  }
  nlohmann::json blobs = nlohmann::json::array();
  for (const ExportBlob& blob : directory.blobs) {
    blobs.push_back(
        {{"name", blob.name}, {"at", blob.at}, {"num_bytes", blob.num_bytes}});
  }
  const ExportInfo& info = directory.info;
  return nlohmann::json{
      {"export", file_name(info.name)},
      {"parent", info.parent},
      {"label", info.label},
      {"tables", tables},
      {"blobs", blobs}}
      .dump();
}

ExportDirectory directory_of_json(std::string_view text) {
  const nlohmann::json json = parse_json(text, "[serving.open]");
  try {
    ExportDirectory directory;
    const auto name = parse_file_name(json.at("export").get<std::string>());
    ARGOSY_CHECK(name, "[serving.open] the directory has no name of an export");
    directory.info = {*name, json.at("parent"), json.at("label")};
    for (const auto& table : json.at("tables")) {
      directory.tables.push_back(
          {table.at("name"),
           table.at("dim"),
           table.at("num_rows"),
           table.at("rows_at"),
           table.at("keys_at"),
           table.at("slots_at"),
           table.at("num_slots")});
    }
    for (const auto& blob : json.at("blobs")) {
      directory.blobs.push_back(
          {blob.at("name"), blob.at("at"), blob.at("num_bytes")});
    }
    return directory;
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(str("[serving.open] ", error.what()));
  }
}

ExportFile::~ExportFile() = default;

void ExportFile::fail(const std::string& what) const {
  throw CheckpointError(str("[serving.open] ", file_->name(), ": ", what));
}

ExportFile::ExportFile(const std::filesystem::path& path, bool verify)
    : file_(mapped(path)), bytes_(file_->bytes().data()) {
  const std::uint64_t size = file_->size();
  if (size < sizeof(Trailer)) {
    fail(str_format("has {} bytes, too few for an export", size));
  }
  const std::uint64_t end = size - sizeof(Trailer);
  const auto trailer = value_at<Trailer>(bytes_ + end);
  if (trailer.magic != kMagic || trailer.directory_at > end ||
      trailer.directory_bytes != end - trailer.directory_at) {
    fail("does not end as an export does: it is none, or is cut off");
  }
  const checkpoint::Hash128 hash{trailer.hash_low, trailer.hash_high};
  hash_ = checkpoint::to_hex(hash);
  if (verify &&
      checkpoint::hash_bytes(
          file_->bytes().subspan(0, end + kHashedOfTrailer)) != hash) {
    fail("is damaged: its bytes do not have its hash");
  }
  sections_end_ = trailer.directory_at;
  try {
    directory_ = directory_of_json(
        {reinterpret_cast<const char*>(bytes_ + trailer.directory_at),
         trailer.directory_bytes});
  } catch (const InvalidArgument& error) {
    fail(error.what());
  }
  if (file_name(info().name) != path.filename()) {
    fail(str("is ", file_name(info().name), " by its content"));
  }
  check_tables();
}

void ExportFile::check_tables() const {
  for (const ExportTable& table : tables()) {
    const std::uint64_t rows = table.num_rows;
    const std::uint64_t slots = table.num_slots;
    const bool sound = table.dim > 0 && table.dim <= kMostDim && rows < slots &&
        (slots & (slots - 1)) == 0 && table.rows_at % kAlignment == 0 &&
        table.keys_at % kAlignment == 0 && table.slots_at % kAlignment == 0 &&
        fits(table.rows_at, rows, table.dim * sizeof(float), sections_end_) &&
        fits(table.keys_at, rows, sizeof(std::uint64_t), sections_end_) &&
        fits(table.slots_at, slots, sizeof(std::uint32_t), sections_end_);
    if (!sound) {
      fail(str_format("table '{}' is not inside of the file", table.name));
    }
  }
  for (const ExportBlob& blob : directory_.blobs) {
    if (!fits(blob.at, blob.num_bytes, 1, sections_end_)) {
      fail(str_format("blob '{}' is not inside of the file", blob.name));
    }
  }
}

const ExportTable* ExportFile::table(std::string_view name) const {
  const auto found = std::ranges::find(tables(), name, &ExportTable::name);
  return found == tables().end() ? nullptr : &*found;
}

std::uint64_t ExportFile::key(
    const ExportTable& table, std::uint64_t row) const {
  return value_at<std::uint64_t>(
      bytes_ + table.keys_at + row * sizeof(std::uint64_t));
}

const float* ExportFile::row(
    const ExportTable& table, std::uint64_t row) const {
  return reinterpret_cast<const float*>(bytes_ + table.rows_at) +
      row * table.dim;
}

const std::uint32_t* ExportFile::slots(const ExportTable& table) const {
  return reinterpret_cast<const std::uint32_t*>(bytes_ + table.slots_at);
}

void ExportFile::prefetch_slot(
    const ExportTable& table, std::uint64_t key) const {
  __builtin_prefetch(slots(table) + (mixed(key) & (table.num_slots - 1)));
}

void ExportFile::prefetch_row(
    const ExportTable& table, std::uint64_t key) const {
  const std::uint32_t number = slots(table)[mixed(key) & (table.num_slots - 1)];
  if (number >= table.num_rows) {
    return;
  }
  __builtin_prefetch(bytes_ + table.keys_at + number * sizeof(std::uint64_t));
  constexpr std::size_t kFloatsOfLine = 64 / sizeof(float);
  const float* const from = row(table, number);
  for (std::uint64_t i = 0; i < table.dim; i += kFloatsOfLine) {
    __builtin_prefetch(from + i);
  }
}

const float* ExportFile::find(
    const ExportTable& table, std::uint64_t key) const {
  const std::uint32_t* const slots = this->slots(table);
  const std::uint64_t mask = table.num_slots - 1;
  // At most once around: a file that nobody verified may have no free slot.
  std::uint64_t slot = mixed(key) & mask;
  for (std::uint64_t tried = 0; tried <= mask; ++tried) {
    const std::uint32_t number = slots[slot];
    if (number >= table.num_rows) {
      return nullptr;
    }
    if (this->key(table, number) == key) {
      return row(table, number);
    }
    slot = (slot + 1) & mask;
  }
  return nullptr;
}

std::optional<std::span<const std::byte>> ExportFile::blob(
    std::string_view name) const {
  const auto found =
      std::ranges::find(directory_.blobs, name, &ExportBlob::name);
  if (found == directory_.blobs.end()) {
    return std::nullopt;
  }
  return std::span(bytes_ + found->at, found->num_bytes);
}

} // namespace argosy::serving
