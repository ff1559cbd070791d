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
  // parts of `in_counts` and `out_counts` elements.
  std::vector<at::Tensor> in;
  std::vector<at::Tensor> out;
  std::vector<std::size_t> in_counts;
  std::vector<std::size_t> out_counts;
  ReduceOp reduce = ReduceOp::SUM;
  int root = -1; // rank in the group; of send and recv, the peer
};

// "all_reduce of float32 [3, 4], sum"
std::string describe(const Op& op);

// Carries the operation out on this thread. `rank` is ours in the group; send
// and recv go to `op.root` of the backend.
void execute(const Op& op, int rank, Backend& backend, Deadline deadline);

} // namespace argosy::comm
