#pragma once

#include <cstdint>

#include "argosy/comm/ops.h"

// The steps between what a gate has chosen and what is sent to experts. Numbers
// of experts are int64 tensors; -1 is a choice that was dropped. Everything is
// in token order, so that it is the same in every run.
namespace argosy::expert {

// How often each of 0 ... upper - 1 is there; -1 does not count. Throws
// InvalidArgument for other numbers.
at::Tensor number_count(const at::Tensor& experts, std::int64_t upper);

// Where the choices are that are not dropped, by expert and then in their
// order. `cum_count` is the running sum of number_count().
at::Tensor assign_pos(const at::Tensor& experts, const at::Tensor& cum_count);

// `expert_count[rank * n + e]` rows want to get to expert e, which takes
// `capacity[e]` of them, those of the first ranks first: how many of each.
at::Tensor limit_by_capacity(
    const at::Tensor& expert_count,
    const at::Tensor& capacity,
    std::int64_t num_ranks);

// The choices, with -1 in place of those behind the first `expert_count[e]` of
// an expert e.
at::Tensor prune_gate_by_capacity(
    const at::Tensor& experts, const at::Tensor& expert_count);

// Of choices [tokens, 2], drops second ones of which `2 * value < chance`.
at::Tensor random_routing(
    const at::Tensor& experts,
    const at::Tensor& value,
    const at::Tensor& chance);

// Each expert takes at most `capacity` choices of this rank, first choices
// before second ones, as GShard has it. Nothing is sent.
at::Tensor limit_by_source(
    const at::Tensor& experts, std::int64_t num_experts, std::int64_t capacity);

// Each expert takes at most `capacity` choices of all ranks, those of the first
// rank first, as Paddle has it. All ranks call it; blocks.
at::Tensor limit_over_ranks(
    const at::Tensor& experts,
    std::int64_t num_experts,
    std::int64_t capacity,
    const GroupPtr& group);

// From counts of rows by their destination [rank * n + e] those by their
// source, and back. All ranks call it; blocks.
at::Tensor exchange_counts(const at::Tensor& counts, const GroupPtr& group);

} // namespace argosy::expert
