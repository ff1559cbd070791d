#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/operation/label.h"
#include "argosy/comm/operation/op_kind.h"

namespace argosy::comm {

// An operation as a backend carries it out: what all members of a group must
// call alike, or both ends of a message. Backends send it as it lies in memory:
// the ranks of a job run on one kind of machine. Call (call.h) is the same
// operation as the user issued it, with its tensors.
struct OpRecord {
  OpKind kind = OpKind::Barrier;
  DType dtype = DType::UInt8;
  ReduceOp reduce = ReduceOp::SUM;
  std::uint8_t unused = 0;
  std::int32_t root = -1;  // of messages, the peer; -1: any
  std::uint64_t count = 0; // elements; 0 where they differ by rank
  std::uint64_t sequence =
      0; // of the group's collectives, from 1; 0: a message

  bool operator==(const OpRecord&) const = default;
};

OpRecord make_record(
    OpKind kind, std::size_t count, Reduction reduction, int root = -1);
// For operations that do not reduce.
OpRecord make_record(
    OpKind kind, std::size_t count, DType dtype, int root = -1);

// "all_reduce of 1024 float32, sum"
std::string describe(const OpRecord& record);

// ", for "batch norm statistics""; empty without a label.
std::string for_text(const OpLabel& label);

// "operation 7 (all_reduce of 1024 float32, sum)", with the number, the root
// and the label that the calling thread's current_operation() gives.
std::string describe_in_group(const OpRecord& record);

// "operation 7 of group 0, for "batch norm statistics"", likewise.
std::string place_in_group(const OpRecord& record, const std::string& group);

// "rank 0 calls ..., rank 2 calls ...": the first rank that does not do what
// rank 0 does. Empty when all do the same. `global_ranks` are those of the
// members; empty: 0, 1, ...
std::string disagreement(
    const std::vector<OpRecord>& records,
    const std::vector<int>& global_ranks = {});

// Of all_to_all: how many elements a rank sends to each, and expects of each.
struct RankCounts {
  std::vector<std::uint64_t> send;
  std::vector<std::uint64_t> receive;
};

// "rank 0 sends 3 elements to rank 2, which expects 4": the first pair that
// differs. Empty when there is none.
std::string disagreement(
    const std::vector<RankCounts>& counts,
    const std::vector<int>& global_ranks = {});

// Throws InvalidArgument unless `how`, a disagreement about `what`, is empty.
void check_agreed(
    const std::string& how, const OpRecord& what, const std::string& group);

} // namespace argosy::comm
