#pragma once

#include <ATen/core/Tensor.h>

#include "argosy/comm/backend/backend.h"

namespace argosy::python {

// Throws InvalidArgument unless it is a sparse tensor, by coordinates, on the
// CPU and of a type that is carried.
void check_sparse(const at::Tensor& tensor);

// The sum of sparse tensors with the same shape on all ranks, in place: what
// DDP needs for embeddings with sparse gradients. Ranks may have any number of
// entries.
void sparse_all_reduce(
    const at::Tensor& tensor,
    int rank,
    int num_ranks,
    comm::Backend& backend,
    Deadline deadline);

} // namespace argosy::python
