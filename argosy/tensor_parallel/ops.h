#pragma once

#include <cstdint>

#include "argosy/comm/ops.h"

// Differentiable conversions for hand-written layers, between a tensor that is
// the same on all ranks of a group and one of which each rank has a slice or a
// summand. The loss must be the same on all ranks of the group. They take plain
// tensors. All ranks call them alike in forward and backward, and block.
// `group` null: the group of the model axis (hybrid_mesh.h), or all ranks.
namespace argosy::tensor_parallel {

// Call it on a tensor before ranks compute different things from it. Forward
// returns the tensor; backward is an all_reduce.
at::Tensor copy_to(const at::Tensor& tensor, const GroupPtr& group = nullptr);

// The sum of the ranks' tensors. Forward is an all_reduce; backward passes the
// gradient through.
at::Tensor reduce_from(
    const at::Tensor& tensor, const GroupPtr& group = nullptr);

// This rank's slice of `dim`. If the dim does not divide by the number of
// ranks, the last ranks get less. Backward is an all_gather.
at::Tensor scatter_to(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = -1);

// The slices of all ranks along `dim`, which has size `whole`; 0: all slices
// are equal. Backward takes this rank's slice.
at::Tensor gather_from(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = -1,
    std::int64_t whole = 0);

// Looks indices up in a table whose first row has the global index `first`.
// Rows that the table does not have are zeros. Does not communicate.
at::Tensor lookup(
    const at::Tensor& table, const at::Tensor& index, std::int64_t first);

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;
  // Number of classes on all ranks together; 0: all ranks have equally many.
  std::int64_t num_classes = 0;
};

// The cross entropy of each target. `scores` is [..., classes], of which every
// rank has its slice of the classes, in rank order. `target` is [...] or
// [..., 1] and the same on all ranks. The loss has the shape of `target`, is
// the same on all ranks, 0 for ignored targets, and float for 16-bit scores.
// Throws InvalidArgument for a target that is not a class. Has no second
// derivative.
at::Tensor cross_entropy(
    const at::Tensor& scores,
    const at::Tensor& target,
    const GroupPtr& group = nullptr,
    const CrossEntropyOptions& options = {});

} // namespace argosy::tensor_parallel
