#pragma once

#include <cstdint>

#include "argosy/comm/ops.h"

// Steps between a tensor that all ranks of a group have alike and one of which
// each has its own part or its own summand, for layers written by hand. The
// loss must be the same on all ranks of the group. Plain tensors; all ranks
// call the same, forward and backward, and wait for each other. `group` null is
// that of the model axis (hybrid_mesh.h), or of all ranks.
namespace argosy::tensor_parallel {

// Before ranks compute different things of the same tensor. Forward as it is;
// backward all_reduce.
at::Tensor copy_to(const at::Tensor& tensor, const GroupPtr& group = nullptr);

// The sum of what the ranks have computed. Forward all_reduce; backward as it
// is.
at::Tensor reduce_from(
    const at::Tensor& tensor, const GroupPtr& group = nullptr);

// This rank's part of `dim`; where that does not divide, the last ranks have
// less. Backward all_gather.
at::Tensor scatter_to(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = -1);

// The parts of all ranks along `dim`, which is `whole` long; 0: parts are
// equal. Backward this rank's part.
at::Tensor gather_from(
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    std::int64_t dim = -1,
    std::int64_t whole = 0);

// Rows of a table whose first one has the number `first`; zeros for numbers
// that it does not have. Nothing is sent.
at::Tensor lookup(
    const at::Tensor& table, const at::Tensor& index, std::int64_t first);

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;
  // Of all ranks; 0: all ranks have equally many.
  std::int64_t num_classes = 0;
};

// The loss of each target, for scores [..., classes] of which every rank has
// its part of the classes, in rank order. Targets are [...] or [..., 1] and the
// same on all ranks; so is the loss, which has their shape and is 0 where
// ignored. Of 16-bit scores it is float. Throws InvalidArgument for targets
// that are no class. Has no second derivative.
at::Tensor cross_entropy(
    const at::Tensor& scores,
    const at::Tensor& target,
    const GroupPtr& group = nullptr,
    const CrossEntropyOptions& options = {});

} // namespace argosy::tensor_parallel
