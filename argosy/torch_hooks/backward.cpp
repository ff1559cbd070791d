#include "argosy/torch_hooks/backward.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace argosy::torch_hooks {

namespace {

// The engine holds it in a callback. If backward throws, the engine destroys
// its callbacks without calling them, which is the only sign of it.
class BackwardEnd {
 public:
  BackwardEnd(std::function<void()> on_end, std::function<void()> on_failure)
      : on_end_(std::move(on_end)), on_failure_(std::move(on_failure)) {}
  ~BackwardEnd() {
    if (!has_ended_) {
      on_failure_();
    }
  }
  BackwardEnd(const BackwardEnd&) = delete;
  BackwardEnd& operator=(const BackwardEnd&) = delete;

  void end() {
    on_end_();
    // After on_end_(): if that throws, on_failure_() still runs.
    has_ended_ = true;
  }

 private:
  const std::function<void()> on_end_;
  const std::function<void()> on_failure_;
  bool has_ended_ = false;
};

} // namespace

bool is_in_backward() {
  return torch::autograd::get_current_graph_task_nodes_in_graph() != nullptr;
}

void at_end_of_backward(
    std::function<void()> on_end, std::function<void()> on_failure) {
  torch::autograd::Engine::get_default_engine().queue_callback(
      [end = std::make_shared<BackwardEnd>(
           std::move(on_end), std::move(on_failure))] { end->end(); });
}

at::Tensor without_values(const at::Tensor& output) {
  // An empty tensor with the output's place in the graph: the graph can be run
  // backward from it while the output's memory is free.
  at::Tensor origin = at::empty({0}, output.options());
  torch::autograd::impl::set_gradient_edge(
      origin, torch::autograd::impl::gradient_edge(output));
  return origin;
}

void bump_version(const at::Tensor& tensor) {
  tensor.unsafeGetTensorImpl()->bump_version();
}

} // namespace argosy::torch_hooks
