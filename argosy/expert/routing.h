#pragma once

#include <cstdint>

#include "argosy/comm/ops.h"

// From the choices of a gate to the rows that are sent to experts. Choices are
// int64 tensors of expert numbers; -1 is a dropped choice. Choices are
// processed in token order, so that runs are reproducible.
namespace argosy::expert {

// Counts how often each number from 0 to upper - 1 occurs. Ignores -1. Throws
// InvalidArgument for other numbers.
at::Tensor number_count(const at::Tensor& experts, std::int64_t upper);

// The positions of the choices that are not dropped, sorted by expert and then
// by position. `cum_count` is the running sum of number_count().
at::Tensor assign_pos(const at::Tensor& experts, const at::Tensor& cum_count);

// Limits the rows of each expert: `expert_count[rank * n + e]` rows of a rank
// are for expert e, which takes `capacity[e]` rows, those of the first ranks
// first. Returns how many it takes from each rank.
at::Tensor limit_by_capacity(
    const at::Tensor& expert_count,
    const at::Tensor& capacity,
    std::int64_t num_ranks);

// Replaces the choices of expert e by -1, except the first `expert_count[e]`.
at::Tensor prune_gate_by_capacity(
    const at::Tensor& experts, const at::Tensor& expert_count);

// Drops second choices of `experts` [tokens, 2] for which 2 * value < chance.
at::Tensor random_routing(
    const at::Tensor& experts,
    const at::Tensor& value,
    const at::Tensor& chance);

// Limits each expert to `capacity` choices of this rank, first choices before
// second ones, as in GShard. Does not communicate.
at::Tensor limit_by_source(
    const at::Tensor& experts, std::int64_t num_experts, std::int64_t capacity);

// Limits each expert to `capacity` choices of all ranks, those of the first
// rank first, as in Paddle. All ranks must call it alike; blocks.
at::Tensor limit_over_ranks(
    const at::Tensor& experts,
    std::int64_t num_experts,
    std::int64_t capacity,
    const GroupPtr& group);

// Converts counts of rows by destination, one for each expert of all ranks, to
// counts by source: with n local experts, [rank * n + e] come from that rank
// for the local expert e. Where experts do not divide by the ranks, the first
// ranks have one more. If they divide, it also converts counts by source to
// counts by destination. All ranks must call it alike; blocks.
at::Tensor exchange_counts(const at::Tensor& counts, const GroupPtr& group);

// The reverse of exchange_counts() for any number of experts.
at::Tensor return_counts(
    const at::Tensor& counts, std::int64_t num_experts, const GroupPtr& group);

} // namespace argosy::expert
