#pragma once

#include "argosy/comm/ops.h"

namespace argosy::expert {
struct AllToAllPlan;
}

// Rows to the ranks that have their experts, and back. All ranks of the group
// call the same, forward and backward, and wait for each other.
namespace argosy::expert {

// Sends rows of x [n, d], ordered by the expert they are for, and returns those
// that arrive for the local experts: by expert, then by the rank they are from.
// Counts are int64, of as many elements as there are experts:
// `local_count[rank * n + e]` rows go to expert e of a rank,
// `global_count[rank * n + e]` come from a rank for the local expert e
// (exchange_counts() makes one of the other). One all-to-all. Differentiable,
// to any order. Throws InvalidArgument when x has other rows than the counts
// say.
at::Tensor global_scatter(
    const at::Tensor& x,
    const at::Tensor& local_count,
    const at::Tensor& global_count,
    const GroupPtr& group = nullptr);

// The inverse, with the same counts.
at::Tensor global_gather(
    const at::Tensor& x,
    const at::Tensor& local_count,
    const at::Tensor& global_count,
    const GroupPtr& group = nullptr);

} // namespace argosy::expert

namespace argosy::expert {

// The same by a plan, without autograd.
at::Tensor send_to_experts(
    const at::Tensor& x, const AllToAllPlan& plan, const GroupPtr& group);
at::Tensor return_from_experts(
    const at::Tensor& x, const AllToAllPlan& plan, const GroupPtr& group);

} // namespace argosy::expert
