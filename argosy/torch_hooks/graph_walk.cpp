#include "argosy/torch_hooks/graph_walk.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace argosy::torch_hooks {

using torch::autograd::Edge;
using torch::autograd::Node;

std::unordered_set<Node*> reachable_nodes(
    const std::vector<at::Tensor>& outputs) {
  return reachable_nodes(graph_of(outputs));
}

std::unordered_set<Node*> reachable_nodes(const std::vector<Edge>& roots) {
  std::unordered_set<Node*> seen;
  std::vector<Node*> waiting;
  const auto visit = [&](const Edge& edge) {
    Node* node = edge.function.get();
    if (node != nullptr && seen.insert(node).second) {
      waiting.push_back(node);
    }
  };
  std::ranges::for_each(roots, visit);
  // A stack of our own: graphs are deep enough to overflow that of a recursion.
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    std::ranges::for_each(node->next_edges(), visit);
  }
  return seen;
}

std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& outputs) {
  std::vector<at::Tensor> leaves;
  for (Node* node : reachable_nodes(outputs)) {
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      leaves.push_back(leaf->variable);
    }
  }
  return leaves;
}

std::vector<Edge> graph_of(const std::vector<at::Tensor>& outputs) {
  std::vector<Edge> roots;
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) {
      roots.push_back(torch::autograd::impl::gradient_edge(output));
    }
  }
  return roots;
}

} // namespace argosy::torch_hooks
