#pragma once

#include "argosy/comm/ops.h"

namespace argosy::data_parallel {

// Collective: the average of the ranks' sparse gradients, which may have
// different numbers of rows. The result has the rows of all ranks; equal row
// indices are added up. An undefined gradient has no rows. `like` is the
// parameter.
at::Tensor average_sparse(
    const at::Tensor& gradient, const at::Tensor& like, const GroupPtr& group);

} // namespace argosy::data_parallel
