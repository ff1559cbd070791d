#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/operation/call.h"
#include "argosy/comm/operation/label.h"
#include "argosy/common/deadline.h"

namespace argosy::comm {

class Backend;

// An operation on tensors, as data: the functions of ops.h make it, a group
// carries it out. The kind decides which fields matter.
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
  int root = -1;   // rank in the group; of send and recv, the peer
  OpLabel label{}; // empty: that of the issuing thread
};

// "all_reduce of float32 [3, 4], sum"
std::string describe(const Op& op);

// How observers see operations that are carried out as one. `ranks` are the
// global ranks of the group.
Call call_of(const std::vector<Op>& ops, const std::vector<int>& ranks);

// Whether both can be carried out as one, with their data side by side.
bool can_fuse(const Op& a, const Op& b);

// Carries the operations out on this thread, as one: all of them can_fuse().
// `rank` is ours in the group.
void execute(
    const std::vector<Op>& ops, int rank, Backend& backend, Deadline deadline);

} // namespace argosy::comm
