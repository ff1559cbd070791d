#include "argosy/training/parameter_marks.h"

#include <ATen/core/Tensor.h>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/tensor_tag.h"

namespace argosy {

ParameterMarks marks_of(const at::Tensor& parameter) {
  const auto* marks = torch_hooks::find_tag<ParameterMarks>(parameter);
  return marks != nullptr ? *marks : ParameterMarks();
}

void set_marks(const at::Tensor& parameter, const ParameterMarks& marks) {
  ARGOSY_CHECK(
      parameter.defined() && parameter.is_leaf(),
      "[training.set_marks] the tensor is not a leaf of the autograd graph, "
      "expected a parameter");
  torch_hooks::set_tag(parameter, marks);
}

} // namespace argosy
