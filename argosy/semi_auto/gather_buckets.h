#pragma once

#include <cstddef>
#include <vector>

#include "argosy/comm/ops.h"

namespace argosy::semi_auto {

// Groups parameters that are gathered in one call: those of one type, in their
// order, up to `bytes` of whole parameters; by fusion ids first (see
// set_comm_fusion()).
std::vector<Tensors> buckets_of(const Tensors& parameters, std::size_t bytes);

} // namespace argosy::semi_auto
