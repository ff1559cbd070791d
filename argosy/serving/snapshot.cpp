#include "argosy/serving/snapshot.h"

#include <algorithm>
#include <bit>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/serving/export_layout.h"

namespace argosy::serving {

// ---- Changed ----------------------------------------------------------------

Snapshot::Changed::Slot& Snapshot::Changed::slot_of(std::uint64_t key) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = mixed(key) & mask;
  while (slots_[slot].row != nullptr && slots_[slot].key != key) {
    slot = (slot + 1) & mask;
  }
  return slots_[slot];
}

void Snapshot::Changed::reserve(std::size_t rows) {
  if (2 * rows <= slots_.size()) {
    return;
  }
  auto old = std::move(slots_);
  slots_.assign(std::bit_ceil(2 * rows), {});
  for (const Slot& slot : old) {
    if (slot.row != nullptr) {
      slot_of(slot.key) = slot;
    }
  }
}

void Snapshot::Changed::set(std::uint64_t key, const float* row) {
  Slot& slot = slot_of(key);
  size_ += slot.row == nullptr ? 1 : 0;
  slot = {key, row};
}

const float* Snapshot::Changed::find(std::uint64_t key) const {
  if (slots_.empty()) {
    return nullptr;
  }
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = mixed(key) & mask;
  while (slots_[slot].row != nullptr && slots_[slot].key != key) {
    slot = (slot + 1) & mask;
  }
  return slots_[slot].row;
}

void Snapshot::Changed::prefetch(std::uint64_t key) const {
  if (!slots_.empty()) {
    __builtin_prefetch(&slots_[mixed(key) & (slots_.size() - 1)]);
  }
}

// ---- Snapshot ---------------------------------------------------------------

Snapshot::Snapshot(std::shared_ptr<const ExportFile> base)
    : files_{std::move(base)} {
  if (!info().name.is_base()) {
    throw CheckpointError(
        str("[serving.snapshot] ",
            file_name(info().name),
            " has changes alone, expected a base"));
  }
  for (const ExportTable& table : newest().tables()) {
    tables_[table.name] = {.in_base = &table, .dim = table.dim};
  }
}

std::shared_ptr<const Snapshot> Snapshot::with(
    std::shared_ptr<const ExportFile> delta) const {
  const ExportInfo& next = delta->info();
  if (next.name.is_base() || next.name.number != number() + 1 ||
      next.parent != hash()) {
    throw CheckpointError(str_format(
        "[serving.snapshot] {} follows an export with the hash {}, expected "
        "{}, that of {}",
        file_name(next.name),
        next.parent,
        hash(),
        file_name(info().name)));
  }
  const std::shared_ptr<Snapshot> result(new Snapshot(*this));
  result->add(*delta);
  result->files_.push_back(std::move(delta));
  return result;
}

void Snapshot::add(const ExportFile& delta) {
  for (const ExportTable& from : delta.tables()) {
    Table& to = tables_[from.name];
    if (to.dim != 0 && to.dim != from.dim) {
      throw CheckpointError(str_format(
          "[serving.snapshot] table '{}' of {} has dim {}, expected {} as "
          "before",
          from.name,
          file_name(delta.info().name),
          from.dim,
          to.dim));
    }
    to.dim = from.dim;
    to.changed.reserve(to.changed.size() + from.num_rows);
    for (std::uint64_t i = 0; i < from.num_rows; ++i) {
      to.changed.set(delta.key(from, i), delta.row(from, i));
    }
  }
}

const Snapshot::Table& Snapshot::table(std::string_view name) const {
  const auto found = tables_.find(name);
  ARGOSY_CHECK(
      found != tables_.end(),
      "[serving.lookup] no table '{}' in {}, expected one of: {}",
      name,
      file_name(info().name),
      join(tables(), ", "));
  return found->second;
}

const float* Snapshot::find(const Table& table, std::uint64_t key) const {
  const float* changed = table.changed.find(key);
  if (changed != nullptr || table.in_base == nullptr) {
    return changed;
  }
  return files_.front()->find(*table.in_base, key);
}

const float* Snapshot::find(std::string_view name, std::uint64_t key) const {
  return find(table(name), key);
}

// The memory of many keys is asked for at once, which takes as long as that of
// one.
void Snapshot::prefetch(
    const Table& table, std::span<const std::uint64_t> keys) const {
  for (const std::uint64_t key : keys) {
    table.changed.prefetch(key);
    if (table.in_base != nullptr) {
      files_.front()->prefetch_slot(*table.in_base, key);
    }
  }
  if (table.in_base != nullptr) {
    for (const std::uint64_t key : keys) {
      files_.front()->prefetch_row(*table.in_base, key);
    }
  }
}

std::size_t Snapshot::lookup(
    std::string_view name,
    std::span<const std::uint64_t> keys,
    std::span<float> rows) const {
  const Table& from = table(name);
  ARGOSY_CHECK(
      rows.size() == keys.size() * from.dim,
      "[serving.lookup] {} floats for {} keys of table '{}', expected {} each",
      rows.size(),
      keys.size(),
      name,
      from.dim);
  constexpr std::size_t kAtOnce = 32;
  std::size_t num_found = 0;
  float* to = rows.data();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i % kAtOnce == 0) {
      prefetch(from, keys.subspan(i, std::min(kAtOnce, keys.size() - i)));
    }
    const float* row = find(from, keys[i]);
    if (row != nullptr) {
      std::copy_n(row, from.dim, to);
      ++num_found;
    } else {
      std::fill_n(to, from.dim, 0.0F);
    }
    to += from.dim;
  }
  return num_found;
}

std::int64_t Snapshot::dim(std::string_view name) const {
  return static_cast<std::int64_t>(table(name).dim);
}

std::vector<std::string> Snapshot::tables() const {
  std::vector<std::string> names;
  for (const auto& [name, table] : tables_) {
    names.push_back(name);
  }
  return names;
}

std::optional<std::span<const std::byte>> Snapshot::blob(
    std::string_view name) const {
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    if (const auto found = (*file)->blob(name)) {
      return found;
    }
  }
  return std::nullopt;
}

} // namespace argosy::serving
