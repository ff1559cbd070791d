#pragma once

#include <cstdint>

#include "argosy/comm/ops.h"

// Conversions for Megatron's sequence parallelism, where each rank of a tensor
// parallel group has a slice of the tokens between tensor parallel layers. They
// take plain tensors. `dim` is the sequence: 0 of [s, b, h], 1 of [b, s, h]. If
// it does not divide by the number of ranks, the last ranks have less, and
// gathers need its size `whole` (0: slices are equal). All ranks call them
// alike, and block. `group` null: the group of the model axis (hybrid_mesh.h),
// or all ranks.
namespace argosy::sequence_parallel {

// This rank's slice of a tensor that is the same on all ranks. Backward is an
// all_gather.
at::Tensor scatter(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0);

// The slices of all ranks, for a computation that is the same on all ranks.
// Backward takes this rank's slice.
at::Tensor gather(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0,
    std::int64_t whole = 0);

// The slices of all ranks, for a computation of which each rank does a part.
// Backward is a reduce_scatter.
at::Tensor all_gather(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0,
    std::int64_t whole = 0);

// This rank's slice of the sum of the ranks' tensors. Backward is an
// all_gather.
at::Tensor reduce_scatter(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0);

} // namespace argosy::sequence_parallel
