#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/op_kind.h"

namespace argosy::comm::message {

// What a rank says of an operation when it enters it. Sent as it lies in
// memory: the ranks of a job are of one kind of machine.
struct OpRecord {
  std::uint64_t sequence = 0; // of the group's operations, from 1
  std::uint64_t count = 0;    // elements; 0 where they differ by rank
  std::int32_t root = -1;     // of messages, the peer
  OpKind kind = OpKind::Barrier;
  DType dtype = DType::UInt8;
  ReduceOp op = ReduceOp::SUM;
  std::uint8_t unused = 0;

  bool operator==(const OpRecord&) const = default;
};

OpRecord make_record(
    OpKind kind, std::size_t count, Reduction reduction, int root = -1);

// "all_reduce of 1024 float32, sum"
std::string describe(const OpRecord& record);

// "rank 0 calls ..., rank 2 calls ...": the first rank that does not do what
// rank 0 does. Empty when all do the same.
std::string disagreement(const std::vector<OpRecord>& records);

// Of all_to_all: what each rank sends to each, and expects of each.
struct RankCounts {
  std::vector<std::uint64_t> send;
  std::vector<std::uint64_t> receive;
};

// "rank 0 sends 3 to rank 2, which expects 4": the first pair that differs.
// Empty when there is none.
std::string disagreement(const std::vector<RankCounts>& counts);

// Throws InvalidArgument unless `how`, a disagreement about `what`, is empty.
void check_agreed(
    const std::string& how, const OpRecord& what, const std::string& group);

} // namespace argosy::comm::message
