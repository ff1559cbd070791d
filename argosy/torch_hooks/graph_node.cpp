#include "argosy/torch_hooks/graph_node.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <utility>

namespace argosy::torch_hooks {

namespace {

using Tensors = std::vector<at::Tensor>;

class FunctionNode : public torch::autograd::Node {
 public:
  FunctionNode(torch::autograd::edge_list&& next_edges, TensorsMap backward)
      : torch::autograd::Node(std::move(next_edges)),
        backward_(std::move(backward)) {}

  Tensors apply(Tensors&& gradients) override {
    // Every rank takes part, also where the loss does not depend on the result.
    for (std::uint32_t i = 0; i < num_inputs(); ++i) {
      if (!gradients[i].defined()) {
        gradients[i] = input_metadata(i).zeros_like();
      }
    }
    return backward_(gradients);
  }

 private:
  const TensorsMap backward_;
};

} // namespace

Tensors apply(
    const Tensors& inputs, const TensorsMap& forward, TensorsMap backward) {
  Tensors outputs;
  {
    // Otherwise the ops of `forward` would record a second graph beside the
    // node.
    const at::NoGradGuard no_grad;
    outputs = forward(inputs);
  }
  if (torch::autograd::compute_requires_grad(inputs)) {
    const std::shared_ptr<FunctionNode> node(
        new FunctionNode(
            torch::autograd::collect_next_edges(inputs), std::move(backward)),
        // Takes long chains of nodes apart in a loop instead of by recursion.
        torch::autograd::deleteNode);
    torch::autograd::set_history(outputs, node);
  }
  return outputs;
}

at::Tensor apply(
    const at::Tensor& tensor,
    const TensorMap& forward,
    const TensorMap& backward) {
  return apply(
      Tensors{tensor},
      [&](const Tensors& in) { return Tensors{forward(in[0])}; },
      [backward](const Tensors& in) { return Tensors{backward(in[0])}; })[0];
}

} // namespace argosy::torch_hooks
