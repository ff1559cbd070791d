#pragma once

#include <cstdint>

#include "argosy/comm/ops.h"

// Megatron's sequence parallelism: between tensor parallel layers, each rank of
// their group has a part of the tokens instead of all of them. Steps between
// the two, for plain tensors; `dim` is the sequence's: 0 of [s, b, h], 1 of
// [b, s, h]. Where it does not divide, the last ranks have less, and who
// gathers says how long the `whole` is (0: parts are equal). All ranks call the
// same and wait for each other; `group` null is that of the model axis
// (hybrid_mesh.h), or of all ranks.
namespace argosy::sequence_parallel {

// Of a tensor that all have: this rank's part. Backward all_gather.
at::Tensor scatter(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0);

// All parts, for what all ranks compute alike. Backward this rank's part.
at::Tensor gather(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0,
    std::int64_t whole = 0);

// All parts, for what each rank computes a part or a summand of. Backward
// reduce_scatter.
at::Tensor all_gather(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0,
    std::int64_t whole = 0);

// This rank's part of the sum of what the ranks computed. Backward all_gather.
at::Tensor reduce_scatter(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = 0);

} // namespace argosy::sequence_parallel
