#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_set>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace argosy::parallel {

// All nodes that backward from these tensors would come by.
std::unordered_set<torch::autograd::Node*> reachable_nodes(
    const std::vector<at::Tensor>& outputs);

} // namespace argosy::parallel
