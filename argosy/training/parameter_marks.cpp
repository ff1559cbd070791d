#include "argosy/training/parameter_marks.h"

#include <torch/csrc/autograd/variable.h>

#include <memory>

#include "argosy/common/error.h"

namespace argosy {

namespace {

using torch::autograd::variable_list;

// A hook that changes nothing: of all that LibTorch lets one attach to a
// tensor, hooks alone outlive set_data() and leave its ops as they are.
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

// LibTorch 1.13 drops a tensor's hooks when it makes the list of those that
// users register, so that list must be there first.
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
      "[training.set_marks] not a parameter, expected a leaf of the graph");
  if (Marks* known = find_marks(parameter)) {
    known->value = marks;
    return;
  }
  make_list_of_user_hooks(parameter);
  torch::autograd::impl::add_hook(parameter, std::make_unique<Marks>(marks));
}

} // namespace argosy
