#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "argosy/ps/table/key_filter.h"
#include "argosy/ps/table/row_batch.h"

namespace argosy::ps {

// The rows of a partition that stand on disk, in a RocksDB of their own, which
// begins empty: durable copies of a table are its saves. A row is in memory or
// here, never in both. A filter in memory knows the keys that were ever here,
// so that new keys cost no read. One thread at a time. All throw SystemError,
// with the folder and what RocksDB says.
class DiskRows {
 public:
  struct Memory {
    std::size_t cache_bytes;
    std::size_t write_bytes; // rows that are not written to files yet
  };

  // Removes what an earlier run left in the folder.
  DiskRows(const std::string& folder, Memory memory);
  ~DiskRows();

  // Adds rows, whose keys are not here.
  void put(const RowBatch& rows);

  // Replaces a row, if it is here.
  void replace(std::uint64_t key, std::span<const float> words);

  // Takes out the rows of these keys, sorted and different, that are here, and
  // appends them to `out`.
  void take(std::vector<std::uint64_t> keys, RowBatch& out);

  // A row's words; empty if it is not here.
  std::vector<float> read(std::uint64_t key);

  void erase(std::uint64_t key);

  // The filter forgets keys that are gone: between these two calls, keep() is
  // called for all keys that were here at the first and still are.
  void begin_new_filter() { new_filter_.emplace(); }
  void keep(std::uint64_t key) { new_filter_->add(key); }
  void end_new_filter();

  // Keys that were looked up here so far.
  std::uint64_t reads() const { return reads_; }

  // Of the filter, and what RocksDB holds of rows, caches and indices.
  std::size_t memory_bytes() const;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  void clear();

  // The rows as they were when the cut was made, in slices.
  class Cut {
   public:
    explicit Cut(DiskRows& rows);
    ~Cut();
    // Appends at most max_rows; returns false, and adds none, at the end.
    bool next(std::size_t max_rows, RowBatch& out);

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  struct Database;
  std::unique_ptr<Database> database_;
  KeyFilter filter_;
  std::optional<KeyFilter> new_filter_;
  std::size_t size_ = 0;
  std::uint64_t reads_ = 0;
};

} // namespace argosy::ps
