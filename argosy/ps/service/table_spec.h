#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "argosy/ps/table/config.h"
#include "argosy/ps/table/dense_table.h"

// What servers must know about a job and its tables. Workers tell it; all must
// tell the same.
namespace argosy::ps {

struct JobSpec {
  int num_workers = 1;
  // Gradients of a step are applied when those of all workers are there.
  bool sync = true;
  // The rows before the last step are kept, so that a worker which was killed
  // can compute its step again. Costs a pull of each row that is pushed.
  bool keeps_last_step = true;
  // Workers push differences of weights, and ask which rows others changed.
  bool geo = false;

  bool operator==(const JobSpec&) const = default;
};

struct TableSpec {
  bool is_dense = false;
  SparseConfig sparse{}; // of a sparse table
  DenseConfig dense{};   // of a dense one
  std::uint64_t dense_size = 0;

  int id() const { return is_dense ? dense.table_id : sparse.table_id; }
  const std::string& name() const {
    return is_dense ? dense.name : sparse.name;
  }

  bool operator==(const TableSpec&) const = default;
};

// Bytes, and back. Decoding throws InvalidArgument.
std::string encode(const JobSpec& spec);
JobSpec decode_job(std::string_view bytes);
std::string encode(const TableSpec& spec);
TableSpec decode_table(std::string_view bytes);

// Throws InvalidArgument, naming the field.
void check(const JobSpec& spec);
void check(const TableSpec& spec);

// Throws InvalidArgument if a table is to be made again, otherwise than it is.
void check_same(const TableSpec& existing, const TableSpec& spec);

} // namespace argosy::ps
