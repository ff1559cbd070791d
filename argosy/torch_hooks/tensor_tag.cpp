#include "argosy/torch_hooks/tensor_tag.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <torch/csrc/autograd/variable.h>

namespace argosy::torch_hooks {

namespace {

using torch::autograd::variable_list;

// A hook that changes nothing: of all that LibTorch lets one attach to a
// tensor, hooks alone outlive set_data() and leave its ops as they are.
class Tag final : public torch::autograd::FunctionPreHook {
 public:
  Tag(std::type_index its_type, std::shared_ptr<void> its_value)
      : type(its_type), value(std::move(its_value)) {}

  variable_list operator()(const variable_list& gradients) override {
    return gradients;
  }

  const std::type_index type;
  std::shared_ptr<void> value;
};

Tag* find(const at::Tensor& tensor, std::type_index type) {
  for (const auto& hook : torch::autograd::impl::hooks(tensor)) {
    auto* tag = dynamic_cast<Tag*>(hook.get());
    if (tag != nullptr && tag->type == type) {
      return tag;
    }
  }
  return nullptr;
}

} // namespace

void* find_tag(const at::Tensor& tensor, std::type_index type) {
  const Tag* tag = find(tensor, type);
  return tag == nullptr ? nullptr : tag->value.get();
}

void set_tag(
    const at::Tensor& tensor, std::type_index type, std::shared_ptr<void> tag) {
  if (Tag* known = find(tensor, type)) {
    known->value = std::move(tag);
    return;
  }
  keep_hooks_of_leaf(tensor);
  torch::autograd::impl::add_hook(
      tensor, std::make_unique<Tag>(type, std::move(tag)));
}

// LibTorch 1.13 drops a tensor's hooks when it makes the list of those that
// users register, so that list must be there first.
void keep_hooks_of_leaf(const at::Tensor& tensor) {
  using torch::autograd::impl::materialize_autograd_meta;
  if (materialize_autograd_meta(tensor)->cpp_hooks_list_ == nullptr) {
    torch::autograd::impl::create_cpp_hook(tensor);
  }
}

} // namespace argosy::torch_hooks
