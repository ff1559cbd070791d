#include "argosy/torch_hooks/backward.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace argosy::torch_hooks {

bool is_in_backward() {
  return torch::autograd::get_current_graph_task_nodes_in_graph() != nullptr;
}

void at_end_of_backward(std::function<void()> action) {
  torch::autograd::Engine::get_default_engine().queue_callback(
      std::move(action));
}

at::Tensor without_values(const at::Tensor& output) {
  at::Tensor origin = at::empty({0}, output.options());
  torch::autograd::impl::set_gradient_edge(
      origin, torch::autograd::impl::gradient_edge(output));
  return origin;
}

void bump_version(const at::Tensor& tensor) {
  tensor.unsafeGetTensorImpl()->bump_version();
}

} // namespace argosy::torch_hooks
