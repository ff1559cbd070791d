#pragma once

#include "argosy/comm/ops.h"

namespace argosy::expert {
struct AllToAllPlan;
}

// Sends rows to the ranks of their experts, and back. All ranks of the group
// must call these functions alike in forward and backward; they block.
namespace argosy::expert {

// Sends the rows of x [n, d], which are ordered by expert, and returns the rows
// for the local experts, ordered by expert and then by sending rank. Counts are
// int64: `local_count` has an element for each expert of all ranks; where they
// do not divide by the ranks, the first ranks have one more. With n local
// experts, `global_count[rank * n + e]` rows come from a rank for the local
// expert e (exchange_counts() converts one to the other). One all-to-all.
// Differentiable to any order. Throws InvalidArgument if the rows of x do not
// match the counts.
at::Tensor global_scatter(
    const at::Tensor& x,
    const at::Tensor& local_count,
    const at::Tensor& global_count,
    const GroupPtr& group = nullptr);

// The inverse of global_scatter(), with the same counts.
at::Tensor global_gather(
    const at::Tensor& x,
    const at::Tensor& local_count,
    const at::Tensor& global_count,
    const GroupPtr& group = nullptr);

// global_scatter() and global_gather() with a plan, without autograd.
at::Tensor send_to_experts(
    const at::Tensor& x, const AllToAllPlan& plan, const GroupPtr& group);
at::Tensor return_from_experts(
    const at::Tensor& x, const AllToAllPlan& plan, const GroupPtr& group);

} // namespace argosy::expert
