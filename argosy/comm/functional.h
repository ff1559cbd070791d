#pragma once

#include "argosy/comm/ops.h"

// Collectives and messages inside models: they return new tensors, and
// backward() goes through them, to any order. All ranks that take part in the
// forward must take part in the backward, in the same order.
namespace argosy::functional {

// Reduces over the ranks. Backward of SUM and AVG: the same reduction of the
// gradients. Backward of MAX and MIN: the gradient goes to the rank that had
// the value, in equal parts if several had it.
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

// A dim need not divide by the number of ranks: the last ranks then have less,
// as with DTensor's Shard. To gather such parts, pass the size of the `whole`
// dim; 0 means that all parts have the same size.

// Concatenates the tensors of all ranks along `dim`. Backward: reduce_scatter.
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

// This rank's part, along dim 0, of the tensor of `src`; other ranks pass one
// of the same shape. Backward: gather.
at::Tensor scatter(
    const at::Tensor& tensor, int src = 0, const GroupPtr& group = nullptr);

// Sends rows to the ranks and receives rows from them. Backward: the same with
// the splits swapped.
at::Tensor alltoall_single(
    const at::Tensor& tensor,
    const RowSplits& splits = {},
    const GroupPtr& group = nullptr);

// Sends tensor i to rank i and receives tensors of the same shapes. Backward:
// the same.
Tensors alltoall(const Tensors& tensors, const GroupPtr& group = nullptr);

// Sends in forward, and receives the gradient in backward. Returns a zero: add
// it to the loss, so that backward reaches this function.
at::Tensor send(
    const at::Tensor& tensor, int dst, const GroupPtr& group = nullptr);

// Receives a tensor like `like` in forward, and sends the gradient in backward.
// `like` must require grad, or backward does not reach this function.
at::Tensor recv(
    const at::Tensor& like, int src, const GroupPtr& group = nullptr);

// The pairs of tensor and sequence parallelism. They assume that the loss is
// the same on all ranks of the group.

// Forward: identity; backward: all_reduce.
at::Tensor c_identity(
    const at::Tensor& tensor, const GroupPtr& group = nullptr);

// Forward: all_reduce; backward: identity.
at::Tensor mp_allreduce(
    const at::Tensor& tensor, const GroupPtr& group = nullptr);

// Forward: the parts of all ranks along `dim`; backward: this rank's part.
at::Tensor c_concat(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = -1,
    std::int64_t whole = 0);

// Forward: this rank's part along `dim`; backward: the parts of all ranks.
at::Tensor c_split(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = -1);

} // namespace argosy::functional
