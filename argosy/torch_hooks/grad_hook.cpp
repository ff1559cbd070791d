#include "argosy/torch_hooks/grad_hook.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace argosy::torch_hooks {

namespace {

class PostHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit PostHook(std::function<void()> action)
      : action_(std::move(action)) {}

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    action_();
    return outputs;
  }

 private:
  const std::function<void()> action_;
};

} // namespace

// A post hook of AccumulateGrad runs when the gradient is in leaf.grad(),
// unlike Tensor::register_hook(), which runs before. The tensor refers to that
// node weakly, so node_ keeps it alive, and the hook with it.
GradHook::GradHook(const at::Tensor& leaf, std::function<void()> action)
    : node_(torch::autograd::impl::grad_accumulator(leaf)),
      key_(
          node_->add_post_hook(std::make_unique<PostHook>(std::move(action)))) {
}

void GradHook::restore() const {
  using namespace torch::autograd; // NOLINT
  const at::Tensor& leaf = static_cast<AccumulateGrad&>(*node_).variable;
  if (impl::try_get_grad_accumulator(leaf) != node_) {
    impl::set_grad_accumulator(leaf, node_);
  }
}

GradHook::~GradHook() {
  // Null after a move.
  if (node_ != nullptr) {
    node_->del_post_hook(key_);
  }
}

} // namespace argosy::torch_hooks
