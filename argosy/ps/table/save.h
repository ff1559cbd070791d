#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "argosy/common/deadline.h"
#include "argosy/ps/table/dense_table.h"
#include "argosy/ps/table/row_batch.h"
#include "argosy/ps/table/save_mode.h"
#include "argosy/ps/table/sparse_table.h"

namespace argosy::ps {

// "<dir>/<table %03d>/part-<server %03d>-<shard %05d>[.gz]".
std::string shard_path(
    const std::string& dir, int table_id, int server, int shard, bool gzip);

// Writes the files of one server's shards: text lines "key v0 v1 ...", floats
// in the shortest form that reads back to the same bits. Rows may come in any
// order and from several partitions, by one thread at a time. Files appear in
// finish(), each complete, in the place of those of an older save; without it
// none does. Throws FsError, SystemError, TimeoutError.
class ShardFilesWriter {
 public:
  // `dir` is a URL or path. Uses layout, shard_num, compress_in_save and, in
  // modes Delta and Base, the converter of the table's config.
  ShardFilesWriter(
      const SparseTable& table,
      const std::string& dir,
      SaveMode mode,
      Deadline deadline);
  ~ShardFilesWriter();

  void add(const RowBatch& rows, Deadline deadline);
  void finish(Deadline deadline);

  std::size_t rows() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads the rows of one server's shards. There must be a file for every shard
// of the table that was saved, written by any number of servers; throws
// CheckpointError, with the path and what was expected, otherwise, and for
// lines that are no rows. If that table had another number of shards, every
// server reads all files. What was saved in modes Delta and Base goes through
// the deconverter.
class ShardFilesReader {
 public:
  ShardFilesReader(
      const SparseTable& table,
      const std::string& dir,
      Deadline deadline,
      SaveMode mode = SaveMode::Checkpoint);
  ~ShardFilesReader();

  // Replaces `out` by the next rows, at most max_rows; false at the end.
  bool next(std::size_t max_rows, RowBatch& out, Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Save and load on the calling thread. If saving fails, the rows' state is as
// before.
void save_sparse(
    SparseTable& table,
    const std::string& dir,
    SaveMode mode,
    Deadline deadline);
void load_sparse(
    SparseTable& table,
    const std::string& dir,
    Deadline deadline,
    SaveMode mode = SaveMode::Checkpoint);

// A server's part of a dense table: "<dir>/<table %03d>/part-<server %03d>", a
// line for each element: its value, then its state. Loading reads the files of
// any number of servers, and takes elements [first, first + size) of `total`.
void save_dense(
    const DenseTable& table,
    const std::string& dir,
    int server,
    Deadline deadline);
void load_dense(
    DenseTable& table,
    const std::string& dir,
    std::uint64_t first,
    std::uint64_t total,
    Deadline deadline);

} // namespace argosy::ps
