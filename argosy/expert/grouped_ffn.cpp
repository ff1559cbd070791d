#include "argosy/expert/grouped_ffn.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/threshold_backward.h>

#include "argosy/common/error.h"
#include "argosy/tensor_parallel/linear.h"
#include "argosy/torch_hooks/kept_value.h"

namespace argosy::expert {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor activate(const at::Tensor& x, ExpertActivation kind) {
  switch (kind) {
    case ExpertActivation::Relu:
      return at::relu(x);
    case ExpertActivation::Silu:
      return at::silu(x);
    default:
      return at::gelu(x);
  }
}

at::Tensor activate_backward(
    const at::Tensor& grad, const at::Tensor& x, ExpertActivation kind) {
  switch (kind) {
    case ExpertActivation::Relu:
      return at::threshold_backward(grad, x, 0);
    case ExpertActivation::Silu:
      return at::silu_backward(grad, x);
    default:
      return at::gelu_backward(grad, x);
  }
}

// Calls body(expert, rows of the expert in each tensor) for all experts.
template <typename Body, typename... Rows>
void for_each_expert(
    const std::vector<std::int64_t>& rows, Body body, const Rows&... tensors) {
  std::int64_t begin = 0;
  for (std::size_t expert = 0; expert < rows.size(); ++expert) {
    body(
        static_cast<std::int64_t>(expert),
        tensors.narrow(0, begin, rows[expert])...);
    begin += rows[expert];
  }
}

// x W + b; each row uses the weights of its expert.
at::Tensor products(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const std::vector<std::int64_t>& rows) {
  at::Tensor y = at::empty({x.size(0), weight.size(2)}, x.options());
  for_each_expert(
      rows,
      [&](std::int64_t expert, const at::Tensor& in, at::Tensor out) {
        at::addmm_out(out, bias[expert], in, weight[expert]);
      },
      x,
      y);
  return y;
}

at::Tensor grad_of_rows(
    const at::Tensor& grad,
    const at::Tensor& weight,
    const std::vector<std::int64_t>& rows) {
  at::Tensor of_rows =
      at::empty({grad.size(0), weight.size(1)}, grad.options());
  for_each_expert(
      rows,
      [&](std::int64_t expert, const at::Tensor& out, at::Tensor in) {
        at::mm_out(in, out, weight[expert].t());
      },
      grad,
      of_rows);
  return of_rows;
}

at::Tensor grad_of_weight(
    const at::Tensor& grad,
    const at::Tensor& x,
    const std::vector<std::int64_t>& rows) {
  const auto n = static_cast<std::int64_t>(rows.size());
  at::Tensor of_weight = at::empty({n, x.size(1), grad.size(1)}, x.options());
  for_each_expert(
      rows,
      [&](std::int64_t expert, const at::Tensor& out, const at::Tensor& in) {
        at::Tensor own = of_weight[expert];
        at::mm_out(own, in.t(), out);
      },
      grad,
      x);
  return of_weight;
}

at::Tensor grad_of_bias(
    const at::Tensor& grad, const std::vector<std::int64_t>& rows) {
  const auto n = static_cast<std::int64_t>(rows.size());
  at::Tensor of_bias = at::empty({n, grad.size(1)}, grad.options());
  for_each_expert(
      rows,
      [&](std::int64_t expert, const at::Tensor& out) {
        at::Tensor own = of_bias[expert];
        at::sum_out(own, out, 0);
      },
      grad);
  return of_bias;
}

// One autograd node for all experts, instead of several for each. Results go
// straight into the rows of one tensor, so nothing is concatenated.
struct Ffn : Function<Ffn> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight1,
      const at::Tensor& bias1,
      const at::Tensor& weight2,
      const at::Tensor& bias2,
      const GroupedFfn& options) {
    const at::Tensor hidden = products(x, weight1, bias1, options.rows);
    const at::Tensor active = activate(hidden, options.activation);
    context->save_for_backward({x, weight1, hidden, active, weight2});
    torch_hooks::keep_value(*context, "options", options);
    const at::Tensor share =
        options.bias_share == 1 ? bias2 : bias2 * options.bias_share;
    return products(active, weight2, share, options.rows);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[expert.grouped_experts] has no second derivative");
    const auto saved = context->get_saved_variables();
    const auto options =
        torch_hooks::kept_value<GroupedFfn>(*context, "options");
    const auto& rows = options.rows;
    const auto needs = [&](std::size_t i) {
      return context->needs_input_grad(i);
    };
    // The gradients of x, the weights and the biases, in the order of forward's
    // arguments.
    variable_list own(6);
    const at::Tensor out = grads[0].contiguous();
    own[3] = needs(3) ? grad_of_weight(out, saved[3], rows) : at::Tensor();
    own[4] = needs(4) ? grad_of_bias(out, rows) : at::Tensor();
    if (!needs(0) && !needs(1) && !needs(2)) {
      return own;
    }
    const at::Tensor hidden = activate_backward(
        grad_of_rows(out, saved[4], rows), saved[2], options.activation);
    own[0] = needs(0) ? grad_of_rows(hidden, saved[1], rows) : at::Tensor();
    own[1] = needs(1) ? grad_of_weight(hidden, saved[0], rows) : at::Tensor();
    own[2] = needs(2) ? grad_of_bias(hidden, rows) : at::Tensor();
    return own;
  }
};

} // namespace

at::Tensor grouped_ffn(
    const at::Tensor& x,
    const GroupedWeights& weights,
    const GroupedFfn& options) {
  return Ffn::apply(
      tensor_parallel::autocast(x).contiguous(),
      tensor_parallel::autocast(weights.weight1),
      tensor_parallel::autocast(weights.bias1),
      tensor_parallel::autocast(weights.weight2),
      tensor_parallel::autocast(weights.bias2),
      options);
}

} // namespace argosy::expert
