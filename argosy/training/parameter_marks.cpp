#include "argosy/training/parameter_marks.h"

#include <torch/nn/module.h>

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

void set_comm_fusion(const at::Tensor& parameter, int id) {
  ARGOSY_CHECK(
      id >= 0,
      "[training.set_comm_fusion] id {}, expected 0 (a bucket of its own) or "
      "more",
      id);
  ParameterMarks marks = marks_of(parameter);
  marks.comm_fusion = id;
  set_marks(parameter, marks);
}

void set_comm_fusion(torch::nn::Module& module, int id, bool recurse) {
  for (const at::Tensor& parameter : module.parameters(recurse)) {
    set_comm_fusion(parameter, id);
  }
}

} // namespace argosy
