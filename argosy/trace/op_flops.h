#pragma once

#include <string_view>
#include <vector>

#include "argosy/trace/graph.h"
#include "argosy/trace/tensor_meta.h"

namespace c10 {
struct IValue;
}

namespace argosy::trace {

// Estimates the multiply-adds of a node: of matrix products and convolutions
// from their shapes, one per element for other ops.
double estimate_flops(const Node& node, const std::vector<TensorMeta>& metas);

// The multiply-adds of a kernel of a matrix product (mm, addmm, bmm, baddbmm)
// with these arguments; 0 of any other op.
double product_flops(std::string_view op, const c10::IValue* arguments);

} // namespace argosy::trace
