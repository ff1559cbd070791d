#include "argosy/expert/clip.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <cmath>

#include "argosy/comm/operation/label.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/optim/gradients.h"
#include "argosy/training/parameter_marks.h"

namespace argosy {

double clip_grad_norm_moe(
    const std::vector<at::Tensor>& parameters,
    double max_norm,
    const GroupPtr& expert_group) {
  Tensors clipped;
  Tensors experts;
  Tensors others;
  for (const at::Tensor& each : parameters) {
    const ParameterMarks marks = marks_of(each);
    if (marks.need_clip) {
      clipped.push_back(each);
      (marks.is_expert ? experts : others).push_back(each);
    }
  }
  const at::Tensor squares =
      at::full({1}, optim::squared_grad_norm(experts), at::kDouble);
  static const OpLabel label("gradient norm of the experts");
  const LabelScope scope(label);
  all_reduce(squares, ReduceOp::SUM, group_or_axis(expert_group, "expert"));
  const double norm =
      std::sqrt(squares.item<double>() + optim::squared_grad_norm(others));
  const double factor = optim::clip_factor(norm, max_norm);
  if (factor != 1) {
    optim::scale_grads(clipped, factor);
  }
  return norm;
}

} // namespace argosy
