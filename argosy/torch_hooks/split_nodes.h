#pragma once

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

// Autograd nodes and hooks for SplitBackward.
namespace argosy::torch_hooks {

// The sequence number of nodes that the engine runs as soon as they are ready.
inline constexpr auto kRunFirst = std::numeric_limits<std::uint64_t>::max();

// deleteNode() takes long chains of nodes apart in a loop; a plain delete would
// recurse and may overflow the stack.
template <typename T, typename... Args>
std::shared_ptr<T> make_node(Args&&... args) {
  return {new T(std::forward<Args>(args)...), torch::autograd::deleteNode};
}

// A sink that keeps the gradients arriving along its edges.
class GradientSink final : public torch::autograd::Node {
 public:
  GradientSink() : Node(kRunFirst) {}

  // Returns the edge to use instead of `edge`, so that its gradient arrives
  // here.
  torch::autograd::Edge replace(const torch::autograd::Edge& edge) {
    input_metadata_.push_back(edge.function->input_metadata(edge.input_nr));
    return {shared_from_this(), num_inputs() - 1};
  }

  // The engine does not run a sink that it does not reach: its gradients are
  // undefined then, as many as there are edges.
  std::vector<at::Tensor> take() {
    gradients_.resize(num_inputs());
    return std::move(gradients_);
  }

  std::vector<at::Tensor> apply(std::vector<at::Tensor>&& gradients) override {
    gradients_ = std::move(gradients);
    return {};
  }

 private:
  std::vector<at::Tensor> gradients_;
};

// A source of gradients computed earlier. Its single input is ignored.
class GradientSource final : public torch::autograd::Node {
 public:
  GradientSource(
      std::uint64_t sequence_nr,
      torch::autograd::edge_list&& edges,
      std::vector<at::Tensor> gradients,
      const at::Tensor& input)
      : Node(sequence_nr, std::move(edges)), gradients_(std::move(gradients)) {
    add_input_metadata(input);
  }

  std::vector<at::Tensor> apply(std::vector<at::Tensor>&& /*input*/) override {
    return std::move(gradients_);
  }

 private:
  std::vector<at::Tensor> gradients_;
};

// Copies the gradients that arrive at a node.
class CopyGradients final : public torch::autograd::FunctionPreHook {
 public:
  explicit CopyGradients(std::vector<at::Tensor>& copies) : copies_(copies) {}

  std::vector<at::Tensor> operator()(
      const std::vector<at::Tensor>& gradients) override {
    // Copies of handles: the second half reads the same memory.
    copies_ = gradients;
    return gradients;
  }

 private:
  std::vector<at::Tensor>& copies_;
};

// Frees what its node has saved, as the engine does unless it keeps the graph.
class ReleaseSaved final : public torch::autograd::FunctionPostHook {
 public:
  explicit ReleaseSaved(torch::autograd::Node& node) : node_(node) {}

  std::vector<at::Tensor> operator()(
      const std::vector<at::Tensor>& outputs,
      const std::vector<at::Tensor>& /*inputs*/) override {
    node_.release_variables();
    return outputs;
  }

 private:
  torch::autograd::Node& node_;
};

} // namespace argosy::torch_hooks
