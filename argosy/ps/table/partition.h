#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "argosy/ps/table/config.h"
#include "argosy/ps/table/row_batch.h"
#include "argosy/ps/table/row_layout.h"
#include "argosy/ps/table/save_mode.h"

namespace argosy::ps {

struct PartitionStat {
  std::size_t rows = 0;      // admitted, in memory and on disk
  std::size_t full_rows = 0; // of those in memory, with embedx
  std::size_t disk_rows = 0;
  std::size_t pending = 0;      // ids that a count filter has not admitted yet
  std::size_t memory_bytes = 0; // of rows, index, and what the disk needs
  std::uint64_t disk_reads = 0; // keys that were looked up on disk
  std::uint64_t disk_hits = 0;  // rows that came back from disk
  std::uint64_t lookups = 0;

  PartitionStat& operator+=(const PartitionStat& other);
};

// Part of a sparse table that one thread owns: no locks, no waits except for
// the disk. Every call must come from one thread at a time. A key belongs to
// exactly one partition of a table (SparseTable::partition_of); a partition
// does not check that.
//
// Calls that visit all rows do so in slices of at most `max_rows`, so that the
// owner serves pulls and pushes between them.
class Partition {
 public:
  // `index` of config.num_partitions: for the folder on disk. Throws
  // InvalidArgument for a wrong config, SystemError if RocksDB fails.
  explicit Partition(const SparseConfig& config, int index = 0);
  ~Partition();

  const RowLayout& layout() const;

  // Fills values, pull_dim floats for each key. Keys may repeat. `create`
  // false: nothing is created even if config.unknown_key is Create. Throws
  // InvalidArgument unless values has keys.size() * pull_dim floats.
  void pull(
      std::span<const std::uint64_t> keys,
      std::span<float> values,
      bool create = true);

  // Applies records, push_dim floats for each key, in order. Keys may repeat.
  // Throws InvalidArgument before anything is changed: wrong size, or, with
  // refuse_non_finite, a value that is no number, naming its key.
  void push(
      std::span<const std::uint64_t> keys, std::span<const float> records);

  // Gives rows these weights, embedx_dim floats for each key, creating those
  // that do not exist; the rest of a row stays. For accessor Embedding; throws
  // InvalidArgument otherwise, and for a wrong size.
  void set_weights(
      std::span<const std::uint64_t> keys, std::span<const float> weights);

  // Rates of both rules, for schedules: used from the next push on.
  void set_learning_rate(float rate);

  // A consistent cut of all rows beside traffic. begin_snapshot() marks it;
  // each next_slice() visits at most max_rows rows as they were at the cut and
  // appends those that the mode wants to `out`, perhaps none; it returns false,
  // and adds none, when all have been visited. Rows that change before they are
  // visited are copied first.
  //
  // Modes choose rows and what happens to the state (see SaveMode). The
  // changes take effect with commit_snapshot(), and abort_snapshot() leaves
  // none, so a save that is tried again saves the same rows. One snapshot at a
  // time; throws InvalidArgument otherwise.
  void begin_snapshot(SaveMode mode);
  bool next_slice(std::size_t max_rows, RowBatch& out);
  void commit_snapshot();
  void abort_snapshot(); // does nothing if there is no snapshot

  // Inserts rows, replacing those of the same keys. Throws InvalidArgument,
  // naming the key, if a row has a wrong number of words. Rows of
  // load_filter_slots are left out.
  void import_rows(const RowBatch& rows);

  // Daily: decays shows and clicks, removes rows with a low score or too many
  // unseen days. Begins a round, or continues it; returns false when the round
  // is done.
  bool shrink_slice(std::size_t max_rows);
  void shrink(); // a whole round

  // Every row's unseen days grow by one; commit_snapshot() of mode BatchModel
  // does the same.
  void end_day();

  // End of a pass: moves rows that were not seen for more than
  // ssd_unseenday_threshold days to disk, as shrink_slice() does. Returns false
  // when the round is done, or the table is not on_ssd.
  bool demote_slice(std::size_t max_rows);

  void clear();

  PartitionStat stat() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::ps
