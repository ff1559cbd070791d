#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/op_kind.h"
#include "argosy/common/deadline.h"

namespace argosy::comm {

class Backend;

// What is asked of a group, as data: the functions of ops.h make it, a group
// carries it out. Which of the fields count follows from the kind.
struct Op {
  OpKind kind = OpKind::Barrier;
  // One tensor; or one for each rank; or one to be cut, in rank order, into
  // parts of `in_counts` and `out_counts` elements. Kinds that work in place
  // have `in` alone.
  std::vector<at::Tensor> in;
  std::vector<at::Tensor> out;
  std::vector<std::size_t> in_counts;
  std::vector<std::size_t> out_counts;
  ReduceOp reduce = ReduceOp::SUM;
  int root = -1; // rank in the group; of send and recv, the peer
};

// "all_reduce of float32 [3, 4], sum"
std::string describe(const Op& op);

// Of this rank: the longer of both sides.
std::size_t bytes_of(const Op& op);

// Whether both can be carried out as one, with their data side by side.
bool can_fuse(const Op& a, const Op& b);

// Carries the operations out on this thread, as one: all of them can_fuse().
// `rank` is ours in the group.
void execute(
    const std::vector<Op>& ops, int rank, Backend& backend, Deadline deadline);

} // namespace argosy::comm
