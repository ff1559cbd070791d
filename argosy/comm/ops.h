#pragma once

#include <memory>
#include <vector>

#include "argosy/comm/group.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/work.h"

namespace at {
class Tensor;
}

// Collectives on tensors, named as in paddle.distributed. `group` null is the
// group of all ranks. All members call the same operation with tensors of the
// same shapes and types; ranks that disagree all get InvalidArgument. With
// `sync_op` the call returns when this rank's part is done; without, at once,
// with a Work to wait for, and the tensors must stay alive and untouched until
// then. Roots, sources and destinations are global ranks.
namespace argosy {

using ReduceOp = comm::ReduceOp;
using GroupPtr = std::shared_ptr<Group>;
using WorkPtr = std::shared_ptr<Work>;

// In place.
WorkPtr all_reduce(
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::Sum,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// In place on `dst`; the tensors of the others stay as they are.
WorkPtr reduce(
    const at::Tensor& tensor,
    int dst,
    ReduceOp op = ReduceOp::Sum,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

WorkPtr broadcast(
    const at::Tensor& tensor,
    int src,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Fills `out`, which has the elements of all ranks in rank order.
WorkPtr all_gather(
    const at::Tensor& out,
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Fills `out` with this rank's part of the sum; `tensor` has a part for each
// rank, in rank order.
WorkPtr reduce_scatter(
    const at::Tensor& out,
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::Sum,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Sends rows of `in` to the ranks and receives rows of `out`, both along dim 0.
// Empty splits mean equal ones.
WorkPtr alltoall_single(
    const at::Tensor& out,
    const at::Tensor& in,
    const std::vector<std::int64_t>& in_split_sizes = {},
    const std::vector<std::int64_t>& out_split_sizes = {},
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Returns when all ranks of the group have called it.
void barrier(const GroupPtr& group = nullptr);

// Waits for work of an operation with sync_op = false.
void wait(const WorkPtr& work);

} // namespace argosy
