#include "argosy/parallel/expert/grouped_ffn.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/threshold_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "argosy/common/error.h"
#include "argosy/parallel/tensor/linear.h"

namespace argosy::parallel {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// For AutogradContext, which keeps what LibTorch knows.
struct KeptOptions : torch::CustomClassHolder {
  explicit KeptOptions(GroupedFfn its_value) : value(std::move(its_value)) {}
  const GroupedFfn value;
};

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

// Calls body(expert, the expert's rows of each tensor).
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

// x W + b, each row with the weights of its expert.
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

struct Gradients {
  at::Tensor x;
  at::Tensor weight;
  at::Tensor bias;
};

Gradients products_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::vector<std::int64_t>& rows,
    bool needs_x) {
  Gradients own{
      needs_x ? at::empty_like(x) : at::Tensor(),
      at::empty_like(weight),
      at::empty({weight.size(0), weight.size(2)}, weight.options())};
  for_each_expert(
      rows,
      [&](std::int64_t expert, const at::Tensor& out, const at::Tensor& in) {
        at::Tensor of_weight = own.weight[expert];
        at::mm_out(of_weight, in.t(), out);
        at::Tensor of_bias = own.bias[expert];
        at::sum_out(of_bias, out, 0);
      },
      grad,
      x);
  if (needs_x) {
    for_each_expert(
        rows,
        [&](std::int64_t expert, const at::Tensor& out, at::Tensor in) {
          at::mm_out(in, out, weight[expert].t());
        },
        grad,
        own.x);
  }
  return own;
}

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
    context->saved_data["options"] =
        c10::IValue::make_capsule(c10::make_intrusive<KeptOptions>(options));
    const at::Tensor share =
        options.bias_share == 1 ? bias2 : bias2 * options.bias_share;
    return products(active, weight2, share, options.rows);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[parallel.grouped_experts] has no second derivative");
    const auto saved = context->get_saved_variables();
    const auto kept = context->saved_data["options"].toCapsule();
    const GroupedFfn& options = static_cast<KeptOptions&>(*kept).value;
    const Gradients second = products_backward(
        grads[0].contiguous(), saved[3], saved[4], options.rows, true);
    const Gradients first = products_backward(
        activate_backward(second.x, saved[2], options.activation),
        saved[0],
        saved[1],
        options.rows,
        context->needs_input_grad(0));
    return {first.x, first.weight, first.bias, second.weight, second.bias, {}};
  }
};

} // namespace

at::Tensor grouped_ffn(
    const at::Tensor& x,
    const GroupedWeights& weights,
    const GroupedFfn& options) {
  return Ffn::apply(
      autocast(x).contiguous(),
      autocast(weights.weight1),
      autocast(weights.bias1),
      autocast(weights.weight2),
      autocast(weights.bias2),
      options);
}

} // namespace argosy::parallel
