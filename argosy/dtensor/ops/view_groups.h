#pragma once

#include <cstdint>
#include <vector>

#include "argosy/dtensor/layout/layout.h"

namespace argosy::dtensor {

// When a tensor of shape `in` is viewed as `out`: for each dim of `in` the dim
// of `out` that is cut when it is cut into `ranks` equal chunks, or -1 where
// the chunks would not be such of any dim. Pure.
//
// Dims go together in groups of as many elements, as (6, 4) and (2, 3, 4) do as
// (6 | 4) and (2 3 | 4). The chunks of the first dim of a group are those of
// the first dim on the other side.
std::vector<int> sharded_dims(
    const Shape& in, const Shape& out, std::int64_t ranks);

} // namespace argosy::dtensor
