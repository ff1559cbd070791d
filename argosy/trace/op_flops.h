#pragma once

#include <vector>

#include "argosy/trace/graph.h"
#include "argosy/trace/tensor_meta.h"

namespace argosy::trace {

// Estimates the multiply-adds of a node: of matrix products and convolutions
// from their shapes, one per element for other ops.
double estimate_flops(const Node& node, const std::vector<TensorMeta>& metas);

} // namespace argosy::trace
