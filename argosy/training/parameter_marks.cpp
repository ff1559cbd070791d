#include "argosy/training/parameter_marks.h"

#include <torch/csrc/autograd/variable.h>

#include <memory>

#include "argosy/common/error.h"

namespace argosy {

namespace {

using torch::autograd::variable_list;

// A hook that changes nothing. Of all that LibTorch can attach to a tensor,
// only hooks survive set_data() without changing how ops dispatch.
class Marks final : public torch::autograd::FunctionPreHook {
 public:
  explicit Marks(const ParameterMarks& marks) : value(marks) {}

  variable_list operator()(const variable_list& gradients) override {
    return gradients;
  }

  ParameterMarks value;
};

Marks* find_marks(const at::Tensor& parameter) {
  for (const auto& hook : torch::autograd::impl::hooks(parameter)) {
    if (auto* marks = dynamic_cast<Marks*>(hook.get())) {
      return marks;
    }
  }
  return nullptr;
}

// LibTorch 1.13 drops a tensor's hooks when it creates the list of user hooks,
// so that list must exist first.
void make_list_of_user_hooks(const at::Tensor& parameter) {
  using torch::autograd::impl::materialize_autograd_meta;
  if (materialize_autograd_meta(parameter)->cpp_hooks_list_ == nullptr) {
    torch::autograd::impl::create_cpp_hook(parameter);
  }
}

} // namespace

ParameterMarks marks_of(const at::Tensor& parameter) {
  const Marks* marks = find_marks(parameter);
  return marks != nullptr ? marks->value : ParameterMarks();
}

void set_marks(const at::Tensor& parameter, const ParameterMarks& marks) {
  ARGOSY_CHECK(
      parameter.defined() && parameter.is_leaf(),
      "[training.set_marks] the tensor is not a leaf of the autograd graph, "
      "expected "
      "a parameter");
  if (Marks* known = find_marks(parameter)) {
    known->value = marks;
    return;
  }
  make_list_of_user_hooks(parameter);
  torch::autograd::impl::add_hook(parameter, std::make_unique<Marks>(marks));
}

} // namespace argosy
