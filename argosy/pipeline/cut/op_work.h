#pragma once

#include <vector>

#include "argosy/pipeline/cut/graph.h"
#include "argosy/pipeline/tensor_meta.h"

// Not installed.
namespace argosy::pipeline {

// About how many multiplications a node takes: those of matrix products and
// convolutions by their shapes, and one an element for all others.
double estimate_work(const Node& node, const std::vector<TensorMeta>& metas);

} // namespace argosy::pipeline
