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

// Ends and beginnings of a graph that is cut in two. Not installed.
namespace argosy::pipeline {

// The sequence number of nodes that run as soon as they can.
inline constexpr auto kAtOnce = std::numeric_limits<std::uint64_t>::max();

template <typename T, typename... Args>
std::shared_ptr<T> make_node(Args&&... args) {
  return {new T(std::forward<Args>(args)...), torch::autograd::deleteNode};
}

// Keeps the gradients that come along the edges that end here.
class Kept final : public torch::autograd::Node {
 public:
  Kept() : Node(kAtOnce) {}

  // In place of `edge`, whose gradient then comes here.
  torch::autograd::Edge end_of(const torch::autograd::Edge& edge) {
    input_metadata_.push_back(edge.function->input_metadata(edge.input_nr));
    return {shared_from_this(), num_inputs() - 1};
  }

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

// Gradients that are known already; has one input, which it ignores.
class Given final : public torch::autograd::Node {
 public:
  Given(
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

// Copies the gradients that come to a node.
class CopyGradients final : public torch::autograd::FunctionPreHook {
 public:
  explicit CopyGradients(std::vector<at::Tensor>& copies) : copies_(copies) {}

  std::vector<at::Tensor> operator()(
      const std::vector<at::Tensor>& gradients) override {
    copies_ = gradients;
    return gradients;
  }

 private:
  std::vector<at::Tensor>& copies_;
};

// Frees what its node has saved, as the engine does where it keeps no graph.
class Release final : public torch::autograd::FunctionPostHook {
 public:
  explicit Release(torch::autograd::Node& node) : node_(node) {}

  std::vector<at::Tensor> operator()(
      const std::vector<at::Tensor>& outputs,
      const std::vector<at::Tensor>& /*inputs*/) override {
    node_.release_variables();
    return outputs;
  }

 private:
  torch::autograd::Node& node_;
};

} // namespace argosy::pipeline
