#pragma once

#include <vector>

#include "argosy/pipeline/cut/graph.h"
#include "argosy/pipeline/tensor_meta.h"

// Not installed.
namespace argosy::pipeline {

// Estimates the multiply-adds of a node: of matrix products and convolutions
// from their shapes, one per element for other ops.
double estimate_work(const Node& node, const std::vector<TensorMeta>& metas);

} // namespace argosy::pipeline
