#pragma once

#include <ATen/core/Tensor.h>

#include "argosy/comm/backend/backend.h"

namespace argosy::python {

// Throws InvalidArgument unless it is a sparse tensor in coordinate format on
// the CPU with a supported dtype.
void check_sparse(const at::Tensor& tensor);

// Sums sparse tensors of equal shape over all ranks, in place. DDP needs it for
// embeddings with sparse gradients. Numbers of entries may differ between
// ranks. Blocks.
void sparse_all_reduce(
    const at::Tensor& tensor,
    int rank,
    int num_ranks,
    comm::Backend& backend,
    Deadline deadline);

} // namespace argosy::python
