#pragma once

#include "argosy/comm/ops.h"

// Collectives and messages inside models: they return new tensors, and
// backward() goes through them, to any order. All ranks that take part in the
// forward must take part in the backward, in the same order.
namespace argosy::functional {

// The sum over the ranks, and what has it as its gradient: the sum of the
// gradients. AVG likewise. Of MAX and MIN the gradient goes to whoever had the
// value, in equal parts when several had.
at::Tensor all_reduce(
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr);

// The sum (or AVG) on `dst`, zeros elsewhere. Backward: broadcast from `dst`.
at::Tensor reduce(
    const at::Tensor& tensor,
    int dst = 0,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr);

// The tensor of `src`. Backward: reduce to `src`, zeros elsewhere.
at::Tensor broadcast(
    const at::Tensor& tensor, int src = 0, const GroupPtr& group = nullptr);

// A dim that is cut into parts need not divide by the number of ranks: the last
// ranks then have less, as with DTensor's Shard. Whoever gathers such parts
// says how long the `whole` is; 0 means that all have the same.

// The tensors of all ranks, side by side along `dim`. Backward: reduce_scatter.
at::Tensor all_gather(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0,
    std::int64_t whole = 0);

// This rank's part, along `dim`, of the sum (or AVG). Backward: all_gather.
at::Tensor reduce_scatter(
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0);

// On `dst` the tensors of all ranks along dim 0, elsewhere a tensor without
// rows. Backward: scatter.
at::Tensor gather(
    const at::Tensor& tensor, int dst = 0, const GroupPtr& group = nullptr);

// This rank's part, along dim 0, of the tensor of `src`; the others give one of
// the same shape. Backward: gather.
at::Tensor scatter(
    const at::Tensor& tensor, int src = 0, const GroupPtr& group = nullptr);

// Rows to and from the ranks; empty splits mean equal ones. Backward: the same
// with the splits exchanged.
at::Tensor alltoall_single(
    const at::Tensor& tensor,
    const std::vector<std::int64_t>& in_split_sizes = {},
    const std::vector<std::int64_t>& out_split_sizes = {},
    const GroupPtr& group = nullptr);

// Tensor i goes to rank i; what comes has the same shapes. Backward: the same.
Tensors alltoall(const Tensors& tensors, const GroupPtr& group = nullptr);

// Sends forward and receives the gradient backward. Returns a zero to be added
// to the loss, so that backward comes by.
at::Tensor send(
    const at::Tensor& tensor, int dst, const GroupPtr& group = nullptr);

// Receives a tensor like `like` (which must require grad for backward to come
// by) and sends the gradient backward.
at::Tensor recv(
    const at::Tensor& like, int src, const GroupPtr& group = nullptr);

// The pairs of tensor and sequence parallelism, where the loss is the same on
// all ranks of the group.

// Forward as it is; backward all_reduce.
at::Tensor c_identity(
    const at::Tensor& tensor, const GroupPtr& group = nullptr);

// Forward all_reduce; backward as it is.
at::Tensor mp_allreduce(
    const at::Tensor& tensor, const GroupPtr& group = nullptr);

// Forward the parts of all ranks along `dim`; backward this rank's part.
at::Tensor c_concat(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = -1,
    std::int64_t whole = 0);

// Forward this rank's part along `dim`; backward the parts of all ranks.
at::Tensor c_split(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = -1);

} // namespace argosy::functional
