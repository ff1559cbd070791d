#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include "argosy/common/error.h"
#include "argosy/tensor_parallel/grid_linear.h"
#include "argosy/torch_hooks/kept_value.h"
#include "argosy/trace/recorded_call.h"

namespace argosy::tensor_parallel {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct NormalizedRows {
  std::int64_t features = 0;
  double eps = 0;
  GroupPtr group;

  // The mean over all features of each row, from this rank's sums.
  at::Tensor mean(const at::Tensor& sums) const {
    const at::Tensor all = sums.contiguous();
    all_reduce(all, ReduceOp::SUM, group);
    return all / features;
  }
};

// Two sums over ranks, each of a number per row: the variance is computed from
// the differences to the mean, since the mean of squares minus the square of
// the mean loses digits.
struct GridNormNode : torch::autograd::Function<GridNormNode> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const NormalizedRows& rows) {
    const at::Tensor exact = x.to(at::toOpMathType(x.scalar_type()));
    const at::Tensor centered = exact - rows.mean(exact.sum(-1, true));
    const at::Tensor variance = rows.mean(centered.square().sum(-1, true));
    const at::Tensor factor = (variance + rows.eps).rsqrt();
    const at::Tensor out = (centered * factor).to(x.scalar_type());
    context->save_for_backward({out, factor});
    torch_hooks::keep_value(*context, "rows", rows);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[tensor_parallel.grid] has no second derivative, expected backward "
        "without create_graph");
    const auto rows = torch_hooks::kept_value<NormalizedRows>(*context, "rows");
    const auto saved = context->get_saved_variables();
    const at::Tensor& factor = saved[1];
    const at::Tensor out = saved[0].to(factor.scalar_type());
    const at::Tensor grad = grads[0].to(factor.scalar_type());
    const at::Tensor means =
        rows.mean(at::stack({grad.sum(-1, true), (grad * out).sum(-1, true)}));
    const at::Tensor grad_x = (grad - means[0] - out * means[1]) * factor;
    return {grad_x.to(saved[0].scalar_type()), {}};
  }
};

} // namespace

at::Tensor grid_normalize(
    const at::Tensor& x,
    std::int64_t features,
    double eps,
    const GroupPtr& group) {
  const auto call =
      [rows = NormalizedRows{features, eps, group}](const Tensors& in) {
        return Tensors{GridNormNode::apply(in[0], rows)};
      };
  return trace::recorded_call({x}, call)[0];
}

} // namespace argosy::tensor_parallel
