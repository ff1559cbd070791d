#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <unordered_set>
#include <vector>

namespace argosy::data_parallel {

// All nodes of the autograd graph that backward from these tensors would
// execute.
std::unordered_set<torch::autograd::Node*> reachable_nodes(
    const std::vector<at::Tensor>& outputs);
std::unordered_set<torch::autograd::Node*> reachable_nodes(
    const std::vector<torch::autograd::Edge>& roots);

} // namespace argosy::data_parallel
