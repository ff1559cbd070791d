// What visits all rows of a partition: snapshots, shrinking, moving to disk.

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/ps/table/partition_impl.h"

namespace argosy::ps {

Round Partition::Impl::begin_round(bool with_disk) {
  return {
      Walk(store),
      with_disk && disk ? std::make_unique<DiskRows::Cut>(*disk) : nullptr};
}

// ---- Snapshot ---------------------------------------------------------------

void Partition::begin_snapshot(SaveMode mode) {
  ARGOSY_CHECK(
      !impl_->snapshot,
      "[ps.snapshot] table '{}': a save in mode {} has not ended, expected one "
      "at a time",
      impl_->rules.config().name,
      to_string(impl_->snapshot->mode));
  impl_->snapshot.emplace(
      Snapshot{mode, impl_->day, impl_->begin_round(true), {}, 0, {}, {}});
}

void Partition::Impl::add_to_delta(std::uint64_t key, float amount) {
  const auto at = static_cast<std::size_t>(rules.layout().delta_score);
  const RowRef row = store.find(key);
  if (row.exists()) {
    if (row.kind() != RowKind::Pending) {
      store.words(row)[at] += amount;
    }
    return;
  }
  std::vector<float> on_disk = disk ? disk->read(key) : std::vector<float>{};
  if (!on_disk.empty()) {
    on_disk[at] += amount;
    disk->replace(key, on_disk);
  }
}

void Partition::Impl::emit(
    std::uint64_t key, std::span<const float> from, RowBatch& out) {
  const RowKind kind = *rules.kind_of(from.size());
  const SaveMode mode = snapshot->mode;
  if (!rules.saved(mode, kind, from.data(), snapshot->day)) {
    return;
  }
  const std::span<float> to = out.add(key, from.size());
  std::copy(from.begin(), from.end(), to.begin());
  // What is loaded from the save of a day's end begins with the next day.
  const float days = mode == SaveMode::BatchModel ? 1 : 0;
  rules.to_outside(kind, to.data(), snapshot->day + days);

  const int at = rules.layout().delta_score;
  const bool restarts = mode == SaveMode::Delta || mode == SaveMode::Base;
  if (!restarts || at < 0 || from[static_cast<std::size_t>(at)] == 0) {
    return;
  }
  const float delta = from[static_cast<std::size_t>(at)];
  snapshot->saved_keys.push_back(key);
  snapshot->saved_deltas.push_back(delta);
  add_to_delta(key, -delta);
}

bool Partition::Impl::next_slice(std::size_t max_rows, RowBatch& out) {
  Snapshot& cut = *snapshot;
  std::size_t visited = 0;
  for (; visited < max_rows && cut.next_changed < cut.changed.size();
       ++visited, ++cut.next_changed) {
    const std::size_t i = cut.next_changed;
    emit(cut.changed.keys[i], cut.changed.row(i), out);
  }
  if (cut.next_changed == cut.changed.size()) {
    cut.changed.clear();
    cut.next_changed = 0;
  }
  for (; visited < max_rows; ++visited) {
    const RowRef row = cut.round.walk.next(store);
    if (!row.exists()) {
      break;
    }
    emit(store.key(row), words(row), out);
  }
  RowBatch on_disk;
  if (visited < max_rows && cut.round.disk &&
      cut.round.disk->next(max_rows - visited, on_disk)) {
    visited += on_disk.size();
    for (std::size_t i = 0; i < on_disk.size(); ++i) {
      emit(on_disk.keys[i], on_disk.row(i), out);
    }
  }
  return visited > 0;
}

bool Partition::next_slice(std::size_t max_rows, RowBatch& out) {
  ARGOSY_CHECK(
      impl_->snapshot,
      "[ps.snapshot] table '{}': no snapshot has begun",
      impl_->rules.config().name);
  ARGOSY_CHECK(
      max_rows > 0, "[ps.snapshot] max_rows is 0, expected at least 1");
  return impl_->next_slice(max_rows, out);
}

void Partition::commit_snapshot() {
  ARGOSY_CHECK(
      impl_->snapshot,
      "[ps.snapshot] table '{}': no snapshot has begun",
      impl_->rules.config().name);
  const SaveMode mode = impl_->snapshot->mode;
  impl_->snapshot.reset();
  if (mode == SaveMode::BatchModel) {
    end_day();
  }
}

void Partition::abort_snapshot() {
  if (!impl_->snapshot) {
    return;
  }
  const Snapshot failed = std::move(*impl_->snapshot);
  impl_->snapshot.reset();
  for (std::size_t i = 0; i < failed.saved_keys.size(); ++i) {
    impl_->add_to_delta(failed.saved_keys[i], failed.saved_deltas[i]);
  }
}

// ---- Shrink -----------------------------------------------------------------

void Partition::Impl::shrink_disk_row(std::uint64_t key) {
  const RowRef row = store.find(key);
  if (row.exists()) { // it has come to memory since the round began
    before_change(row);
    if (rules.shrink(row.kind(), store.words(row), day)) {
      erase(row);
    }
    return;
  }
  std::vector<float> on_disk = disk->read(key);
  if (on_disk.empty()) {
    return;
  }
  if (rules.shrink(*rules.kind_of(on_disk.size()), on_disk.data(), day)) {
    disk->erase(key);
  } else {
    disk->replace(key, on_disk);
    disk->keep(key);
  }
}

bool Partition::Impl::shrink_slice(std::size_t max_rows) {
  if (!rules.layout().has_ctr()) {
    return false;
  }
  if (!shrinking) {
    shrinking.emplace(begin_round(true));
    if (disk) {
      disk->begin_new_filter();
    }
  }
  std::size_t visited = 0;
  for (; visited < max_rows; ++visited) {
    const RowRef row = shrinking->walk.next(store);
    if (!row.exists()) {
      break;
    }
    before_change(row);
    if (rules.shrink(row.kind(), store.words(row), day)) {
      erase(row);
    }
  }
  RowBatch on_disk;
  if (visited < max_rows && shrinking->disk &&
      shrinking->disk->next(max_rows - visited, on_disk)) {
    visited += on_disk.size();
    for (const std::uint64_t key : on_disk.keys) {
      shrink_disk_row(key);
    }
  }
  if (visited < max_rows) {
    shrinking.reset();
    if (disk) {
      disk->end_new_filter();
    }
  }
  return shrinking.has_value();
}

bool Partition::shrink_slice(std::size_t max_rows) {
  return impl_->shrink_slice(std::max<std::size_t>(max_rows, 1));
}

void Partition::shrink() {
  constexpr std::size_t kSlice = 4096;
  while (shrink_slice(kSlice)) {
  }
}

// ---- Memory and disk --------------------------------------------------------

std::size_t Partition::Impl::rows_in_memory() const {
  return store.slab(RowKind::Full).size() + store.slab(RowKind::Base).size();
}

void Partition::Impl::promote(std::span<const std::uint64_t> keys) {
  if (!disk || disk->empty()) {
    return;
  }
  std::vector<std::uint64_t> missing;
  store.find_all(keys, [&](std::size_t i, RowRef row, float*) {
    if (!row.exists()) {
      missing.push_back(keys[i]);
    }
  });
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  RowBatch found;
  disk->take(std::move(missing), found);
  disk_hits += found.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    insert_copy(found.keys[i], found.row(i));
  }
}

void Partition::Impl::move_to_disk(const std::vector<RowRef>& rows) {
  RowBatch moved;
  for (const RowRef row : rows) {
    before_leave(row);
    const std::span<const float> from = words(row);
    const std::span<float> to = moved.add(store.key(row), from.size());
    std::copy(from.begin(), from.end(), to.begin());
  }
  disk->put(moved);
  for (const RowRef row : rows) {
    store.erase(row);
  }
}

// Rows that nothing has touched since the hand came by last: at most `count`,
// up to the end of the hand's round, so that none is chosen twice.
std::vector<RowRef> Partition::Impl::untouched(std::size_t count) {
  std::vector<RowRef> rows;
  RowRef& hand = clock_hand;
  while (rows.size() < count) {
    Slab& slab = store.slab(hand.kind());
    if (hand.index() >= slab.end()) {
      const bool full = hand.kind() == RowKind::Full;
      hand = RowRef::of(full ? RowKind::Base : RowKind::Full, 0);
      if (!full) {
        break;
      }
      continue;
    }
    // Up to 64 rows at once; past the last one that is chosen, none.
    const std::uint32_t from = hand.index() % 64;
    std::uint32_t past = 64;
    std::uint64_t cold = slab.cold_bits(hand.index() - from) >> from << from;
    for (; cold != 0 && past == 64; cold &= cold - 1) {
      const auto bit = static_cast<std::uint32_t>(__builtin_ctzll(cold));
      rows.push_back({hand.bits - from + bit});
      past = rows.size() == count ? bit + 1 : 64;
    }
    slab.clear_recent(hand.index() - from, from, past);
    hand.bits += past - from;
  }
  return rows;
}

// Brings memory a little below its limit, so that rows leave in batches; small
// ones, because pulls and pushes wait meanwhile.
void Partition::Impl::evict() {
  if (memory_limit == 0 || rows_in_memory() <= memory_limit) {
    return;
  }
  constexpr std::size_t kMostAtOnce = 8192;
  const std::size_t target =
      memory_limit - std::min(memory_limit / 32, kMostAtOnce);
  while (rows_in_memory() > target) {
    move_to_disk(untouched(rows_in_memory() - target));
  }
}

bool Partition::Impl::demote_slice(std::size_t max_rows) {
  if (!disk) {
    return false;
  }
  if (!demoting) {
    demoting.emplace(begin_round(false));
  }
  std::vector<RowRef> cold;
  std::size_t visited = 0;
  for (; visited < max_rows; ++visited) {
    const RowRef row = demoting->walk.next(store);
    if (!row.exists()) {
      break;
    }
    if (row.kind() != RowKind::Pending && rules.cold(store.words(row), day)) {
      cold.push_back(row);
    }
  }
  move_to_disk(cold);
  if (visited < max_rows) {
    demoting.reset();
  }
  return demoting.has_value();
}

bool Partition::demote_slice(std::size_t max_rows) {
  return impl_->demote_slice(std::max<std::size_t>(max_rows, 1));
}

} // namespace argosy::ps
