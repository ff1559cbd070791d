#pragma once

#include <ATen/core/Tensor.h>

#include "argosy/comm/ops.h"

namespace argosy::data_parallel {

// Memory for `count` elements, zeros: memory that all ranks of the group map,
// where they can, so that reductions need no copies. A collective call.
at::Tensor bucket_memory(
    std::size_t count, c10::ScalarType type, const GroupPtr& group);

// A part of it in a shape. Not a view to autograd, which would refuse to
// detach_() it, as optimizers do with gradients.
at::Tensor bucket_part(
    const at::Tensor& flat, std::size_t begin, at::IntArrayRef sizes);

} // namespace argosy::data_parallel
