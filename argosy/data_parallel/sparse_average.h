#pragma once

#include "argosy/comm/ops.h"

namespace argosy::data_parallel {

// The average over the ranks of sparse gradients, which may have
// different numbers of rows: the rows of all ranks, added up where they are the
// same. An undefined gradient counts as one without rows; `like` is the
// parameter.
at::Tensor average_sparse(
    const at::Tensor& gradient, const at::Tensor& like, const GroupPtr& group);

} // namespace argosy::data_parallel
