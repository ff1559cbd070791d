#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <unordered_set>
#include <vector>

namespace argosy::torch_hooks {

// The nodes of autograd's graph that backward() from these tensors visits.
std::unordered_set<torch::autograd::Node*> reachable_nodes(
    const std::vector<at::Tensor>& outputs);
std::unordered_set<torch::autograd::Node*> reachable_nodes(
    const std::vector<torch::autograd::Edge>& roots);

// The leaves to which backward() from these tensors adds gradients.
std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& outputs);

// Keeps the graph of these tensors, without their values.
std::vector<torch::autograd::Edge> graph_of(
    const std::vector<at::Tensor>& outputs);

} // namespace argosy::torch_hooks
