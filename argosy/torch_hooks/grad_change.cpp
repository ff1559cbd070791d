#include "argosy/torch_hooks/grad_change.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>

#include "argosy/torch_hooks/tensor_tag.h"

namespace argosy::torch_hooks {

namespace {

using torch::autograd::FunctionPreHook;
using torch::autograd::variable_list;

class Change final : public FunctionPreHook {
 public:
  Change(ChangeGradient* change, std::size_t place)
      : change_(change), place_(place) {}

  variable_list operator()(const variable_list& gradients) override {
    variable_list changed = gradients;
    if (changed[place_].defined()) {
      changed[place_] = change_(changed[place_]);
    }
    return changed;
  }

  bool is_same(const Change& other) const {
    return change_ == other.change_ && place_ == other.place_;
  }

 private:
  ChangeGradient* const change_;
  const std::size_t place_; // among the gradients of a node's outputs
};

template <typename Hooks>
bool has(const Hooks& hooks, const Change& change) {
  return std::ranges::any_of(hooks, [&](const auto& hook) {
    const auto* known = dynamic_cast<const Change*>(hook.get());
    return known != nullptr && known->is_same(change);
  });
}

} // namespace

void change_gradient(const at::Tensor& tensor, ChangeGradient* change) {
  const auto& node = tensor.grad_fn();
  const Change hook(change, node == nullptr ? 0 : tensor.output_nr());
  if (node != nullptr) {
    if (!has(node->pre_hooks(), hook)) {
      node->add_pre_hook(std::make_unique<Change>(hook));
    }
  } else if (!has(torch::autograd::impl::hooks(tensor), hook)) {
    keep_hooks_of_leaf(tensor);
    torch::autograd::impl::add_hook(tensor, std::make_unique<Change>(hook));
  }
}

} // namespace argosy::torch_hooks
