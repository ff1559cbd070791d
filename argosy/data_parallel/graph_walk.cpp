#include "argosy/data_parallel/graph_walk.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace argosy::data_parallel {

using torch::autograd::Edge;
using torch::autograd::Node;

std::unordered_set<Node*> reachable_nodes(
    const std::vector<at::Tensor>& outputs) {
  std::vector<Edge> roots;
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) {
      roots.push_back(torch::autograd::impl::gradient_edge(output));
    }
  }
  return reachable_nodes(roots);
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
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    std::ranges::for_each(node->next_edges(), visit);
  }
  return seen;
}

} // namespace argosy::data_parallel
