#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace at {
class Tensor;
}
namespace torch::autograd {
struct Node;
}

namespace argosy::torch_hooks {

// While it lives, calls `action` each time that backward() has added to the
// gradient of a leaf, on the thread that runs backward().
class GradHook {
 public:
  GradHook(const at::Tensor& leaf, std::function<void()> action);
  ~GradHook();
  GradHook(GradHook&& other) noexcept = default;
  GradHook& operator=(GradHook&&) = delete;

  // After set_data() of the leaf LibTorch may make another node, without the
  // hook: brings the old one back. To be called before a forward uses the leaf.
  void restore() const;

  // The node of the graph that adds to the gradient.
  torch::autograd::Node* node() const { return node_.get(); }

 private:
  std::shared_ptr<torch::autograd::Node> node_; // null when moved from
  std::uintptr_t key_;
};

} // namespace argosy::torch_hooks
