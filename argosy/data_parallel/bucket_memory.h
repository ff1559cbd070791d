#pragma once

#include <ATen/core/Tensor.h>

#include "argosy/comm/ops.h"

namespace argosy::data_parallel {

// Returns zeroed memory for `count` elements. For ranks that are processes of
// one host it is shared memory that all of them map, so that reductions need no
// copies. All ranks of the group must call it alike.
at::Tensor bucket_memory(
    std::int64_t count, c10::ScalarType type, const GroupPtr& group);

// Returns the elements from `begin` on in shape `sizes`. Autograd does not know
// the result as a view: it refuses detach_() on views, which optimizers call on
// gradients.
at::Tensor bucket_part(
    const at::Tensor& flat, std::int64_t begin, at::IntArrayRef sizes);

} // namespace argosy::data_parallel
