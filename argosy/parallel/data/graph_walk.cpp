#include "argosy/parallel/data/graph_walk.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace argosy::parallel {

using torch::autograd::Node;

std::unordered_set<Node*> reachable_nodes(
    const std::vector<at::Tensor>& outputs) {
  std::unordered_set<Node*> seen;
  std::vector<Node*> waiting;
  const auto visit = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) {
      waiting.push_back(node);
    }
  };
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) {
      visit(torch::autograd::impl::gradient_edge(output).function.get());
    }
  }
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    for (const auto& edge : node->next_edges()) {
      visit(edge.function.get());
    }
  }
  return seen;
}

} // namespace argosy::parallel
