#pragma once

#include <vector>

#include "argosy/trace/graph.h"
#include "argosy/trace/tensor_meta.h"

namespace argosy::trace {

// About how many multiplications a node takes: those of matrix products and
// convolutions by their shapes, and one an element for all others.
double estimate_flops(const Node& node, const std::vector<TensorMeta>& metas);

} // namespace argosy::trace
