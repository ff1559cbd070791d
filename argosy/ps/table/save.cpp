#include "argosy/ps/table/save.h"

namespace argosy::ps {

namespace {

constexpr std::size_t kRowsOfSlice = 4096;

void write_snapshot(
    SparseTable& table, ShardFilesWriter& writer, Deadline deadline) {
  RowBatch rows;
  for (int p = 0; p < table.num_partitions(); ++p) {
    while (table.partition(p).next_slice(kRowsOfSlice, rows)) {
      writer.add(rows, deadline);
      rows.clear();
    }
  }
  writer.finish(deadline);
}

} // namespace

void save_sparse(
    SparseTable& table,
    const std::string& dir,
    SaveMode mode,
    Deadline deadline) {
  ShardFilesWriter writer(table, dir, mode, deadline);
  table.begin_snapshot(mode);
  try {
    write_snapshot(table, writer, deadline);
  } catch (...) {
    table.abort_snapshot();
    throw;
  }
  table.commit_snapshot();
}

void load_sparse(
    SparseTable& table,
    const std::string& dir,
    Deadline deadline,
    SaveMode mode) {
  ShardFilesReader reader(table, dir, deadline, mode);
  RowBatch rows;
  std::vector<RowBatch> by_partition(
      static_cast<std::size_t>(table.num_partitions()));
  while (reader.next(kRowsOfSlice, rows, deadline)) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto p = static_cast<std::size_t>(table.partition_of(rows.keys[i]));
      const auto from = rows.row(i);
      const auto to = by_partition[p].add(rows.keys[i], from.size());
      std::copy(from.begin(), from.end(), to.begin());
    }
    for (int p = 0; p < table.num_partitions(); ++p) {
      RowBatch& mine = by_partition[static_cast<std::size_t>(p)];
      table.partition(p).import_rows(mine);
      mine.clear();
    }
  }
}

} // namespace argosy::ps
