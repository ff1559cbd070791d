#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "argosy/ps/table/row_batch.h"

namespace argosy::ps {

// The rows of a partition that stand on disk, in a RocksDB of their own, which
// begins empty: durable copies of a table are its saves. A row is in memory or
// here, never in both. One thread at a time. All throw SystemError, with the
// folder and what RocksDB says.
class DiskRows {
 public:
  // Removes what an earlier run left in the folder.
  DiskRows(const std::string& folder, std::size_t cache_bytes);
  ~DiskRows();

  // Adds rows, whose keys are not here.
  void put(const RowBatch& rows);

  // Replaces a row, if it is here.
  void replace(std::uint64_t key, std::span<const float> words);

  // Takes out the rows of these keys that are here, and appends them to `out`.
  void take(std::span<const std::uint64_t> keys, RowBatch& out);

  // A row's words; empty if it is not here.
  std::vector<float> read(std::uint64_t key);

  void erase(std::uint64_t key);

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
  std::size_t size_ = 0;
};

} // namespace argosy::ps
