#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "argosy/ps/table/disk_rows.h"
#include "argosy/ps/table/partition.h"
#include "argosy/ps/table/row_rules.h"
#include "argosy/ps/table/row_store.h"
#include "argosy/ps/table/walk.h"

namespace argosy::ps {

// A round over all rows, in memory and then on disk.
struct Round {
  Walk walk;
  std::unique_ptr<DiskRows::Cut> disk;
};

struct Snapshot {
  SaveMode mode;
  float day;
  Round round;
  RowBatch changed; // rows that changed or went before they were visited
  std::size_t next_changed = 0;
  // What was taken off the delta_score of saved rows, to be given back if the
  // save fails.
  std::vector<std::uint64_t> saved_keys;
  std::vector<float> saved_deltas;
};

struct Partition::Impl {
  Impl(const SparseConfig& config, int index);

  RowRules rules;
  RowStore store;
  std::unique_ptr<DiskRows> disk; // if on_ssd
  std::size_t memory_limit = 0;   // rows; 0: none
  RowRef clock_hand = RowRef::of(RowKind::Full, 0);
  float day = 0;
  std::optional<Snapshot> snapshot;
  std::optional<Round> shrinking;
  std::optional<Round> demoting;
  std::uint64_t lookups = 0;
  std::uint64_t disk_hits = 0;

  // Rows come, change and go only through these: they tell the rounds.
  RowRef insert(std::uint64_t key, RowKind kind);
  RowRef change_kind(RowRef row, RowKind kind);
  void erase(RowRef row);
  void before_change(RowRef row) {
    if (snapshot && snapshot->round.walk.ahead(row)) {
      copy_for_snapshot(row);
    }
  }
  void copy_for_snapshot(RowRef row);
  void before_leave(RowRef row);
  void after_insert(RowRef row);

  std::span<const float> words(RowRef row) const {
    return {store.words(row), rules.words(row.kind())};
  }
  RowRef create(std::uint64_t key, RowRef pending);
  RowRef admit(
      std::uint64_t key, RowRef pending, std::span<const float> record);
  // `words` of the row, if there is one.
  void push_one(
      std::uint64_t key,
      RowRef row,
      float* words,
      std::span<const float> record);
  void pull_one(
      std::uint64_t key,
      RowRef row,
      const float* words,
      float* out,
      bool create);
  void pull_group(const RowGroup& group, float* out, bool create);
  void push_group(const RowGroup& group, std::span<const float> records);
  void extend(RowRef row);
  void mark_recent(RowRef row) {
    if (disk) {
      store.slab(row.kind()).set_recent(row.index());
    }
  }
  void mark_recent(const RowGroup& group);

  // A round over what exists now.
  Round begin_round(bool with_disk);

  // Brings rows of these keys into memory; moves others out when there are too
  // many.
  void promote(std::span<const std::uint64_t> keys);
  void insert_copy(std::uint64_t key, std::span<const float> words);
  void move_to_disk(const std::vector<RowRef>& rows);
  std::vector<RowRef> untouched(std::size_t count);
  void evict();
  std::size_t rows_in_memory() const;

  bool shrink_slice(std::size_t max_rows);
  void shrink_disk_row(std::uint64_t key);
  bool demote_slice(std::size_t max_rows);

  bool next_slice(std::size_t max_rows, RowBatch& out);
  void emit(std::uint64_t key, std::span<const float> words, RowBatch& out);
  void add_to_delta(std::uint64_t key, float amount);

  void check_import(const RowBatch& rows) const;
};

} // namespace argosy::ps
