#include "argosy/serving/export_writer.h"

#include <array>
#include <bit>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/fs/open.h"
#include "argosy/serving/export_layout.h"

namespace argosy::serving {

namespace {

// Of what a killed writer has left, where that cannot be told by its process.
constexpr std::chrono::hours kPartialAge{24};
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::unique_ptr<fs::Writer> open_export(
    const std::string& folder, const ExportName& name, Deadline deadline) {
  const fs::Location location = fs::open(folder);
  location.fs->make_dirs(location.path, deadline);
  location.fs->sweep(location.path, kPartialAge, deadline);
  return location.fs->open_write(
      fs::join_path(location.path, file_name(name)), {}, deadline);
}

} // namespace

ExportWriter::ExportWriter(
    const std::string& folder, ExportInfo info, Deadline deadline)
    : deadline_(deadline), file_(open_export(folder, info.name, deadline)) {
  ARGOSY_CHECK(
      info.name.number > 0 && info.name.is_base() == info.parent.empty(),
      "[serving.write] {} with parent '{}', expected a number from 1 on, and "
      "the parent's hash for deltas alone",
      file_name(info.name),
      info.parent);
  directory_.info = std::move(info);
  buffer_.reserve(kBufferBytes);
}

ExportWriter::~ExportWriter() = default;

void ExportWriter::write(const void* bytes, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(bytes);
  buffer_.insert(buffer_.end(), from, from + size);
  at_ += size;
  if (buffer_.size() >= kBufferBytes) {
    hash_.add(buffer_);
    file_->write(buffer_, deadline_);
    buffer_.clear();
  }
}

void ExportWriter::align() {
  constexpr std::array<std::byte, kAlignment> kZeros{};
  write(kZeros.data(), (kAlignment - at_ % kAlignment) % kAlignment);
}

void ExportWriter::begin_table(const std::string& name, std::int64_t dim) {
  ARGOSY_CHECK(
      dim > 0,
      "[serving.write] table '{}' of dim {}, expected at least 1",
      name,
      dim);
  end_table();
  for (const ExportTable& table : directory_.tables) {
    ARGOSY_CHECK(
        table.name != name, "[serving.write] table '{}' comes twice", name);
  }
  align();
  directory_.tables.push_back(
      {.name = name, .dim = static_cast<std::uint64_t>(dim), .rows_at = at_});
  in_table_ = true;
}

void ExportWriter::add_row(std::uint64_t key, std::span<const float> row) {
  ARGOSY_CHECK(in_table_, "[serving.write] a row before begin_table()");
  const ExportTable& table = directory_.tables.back();
  ARGOSY_CHECK(
      row.size() == table.dim,
      "[serving.write] {} floats for key {} of table '{}', expected {}",
      row.size(),
      key,
      table.name,
      table.dim);
  keys_.push_back(key);
  write(row.data(), row.size_bytes());
}

void ExportWriter::end_table() {
  if (!in_table_) {
    return;
  }
  in_table_ = false;
  ExportTable& table = directory_.tables.back();
  ARGOSY_CHECK(
      keys_.size() < kNoRow / 2,
      "[serving.write] {} rows of table '{}', expected at most {}",
      keys_.size(),
      table.name,
      kNoRow / 2);
  table.num_rows = keys_.size();
  align();
  table.keys_at = at_;
  write(keys_.data(), keys_.size() * sizeof(keys_[0]));
  write_slots(table);
  keys_.clear();
}

void ExportWriter::write_slots(ExportTable& table) {
  table.num_slots = std::bit_ceil(2 * table.num_rows + 1);
  std::vector<std::uint32_t> slots(table.num_slots, kNoRow);
  const std::uint64_t mask = table.num_slots - 1;
  for (std::uint32_t i = 0; i < keys_.size(); ++i) {
    std::uint64_t slot = mixed(keys_[i]) & mask;
    while (slots[slot] != kNoRow) {
      ARGOSY_CHECK(
          keys_[slots[slot]] != keys_[i],
          "[serving.write] key {} comes twice in table '{}'",
          keys_[i],
          table.name);
      slot = (slot + 1) & mask;
    }
    slots[slot] = i;
  }
  align();
  table.slots_at = at_;
  write(slots.data(), slots.size() * sizeof(slots[0]));
}

void ExportWriter::add_blob(
    const std::string& name, std::span<const std::byte> bytes) {
  end_table();
  align();
  directory_.blobs.push_back({name, at_, bytes.size()});
  write(bytes.data(), bytes.size());
}

std::string ExportWriter::commit() {
  end_table();
  Trailer trailer{.directory_at = at_};
  const std::string directory = to_json(directory_);
  trailer.directory_bytes = directory.size();
  write(directory.data(), directory.size());
  write(&trailer, kHashedOfTrailer);
  hash_.add(buffer_);
  const checkpoint::Hash128 hash = hash_.result();
  trailer.hash_low = hash.low;
  trailer.hash_high = hash.high;
  const auto* rest = reinterpret_cast<const std::byte*>(&trailer);
  buffer_.insert(
      buffer_.end(), rest + kHashedOfTrailer, rest + sizeof(trailer));
  file_->write(buffer_, deadline_);
  fault_point("serving.written");
  file_->commit(deadline_);
  fault_point("serving.committed");
  return checkpoint::to_hex(hash);
}

} // namespace argosy::serving
