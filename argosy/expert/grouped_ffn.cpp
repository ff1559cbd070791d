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

#include <utility>

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
    case ExpertActivation::SwiGlu:
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
    case ExpertActivation::SwiGlu:
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

// What forward saves for backward. Of a gated activation, the products alone:
// the activation, which is one pass over them, runs again.
struct FfnSaved {
  at::Tensor x;
  at::Tensor weight1;
  at::Tensor weight2;
  at::Tensor hidden; // x W1 + b1
  at::Tensor active; // what W2 multiplies; undefined if gated
  at::Tensor weight3;
  at::Tensor factor; // x W3 + b3, if gated

  variable_list list() const {
    return {x, weight1, weight2, hidden, active, weight3, factor};
  }
  static FfnSaved from(const variable_list& all) {
    return {all[0], all[1], all[2], all[3], all[4], all[5], all[6]};
  }
};

// The gradients of Ffn's inputs. Stands apart from Ffn, because the plain and
// the gated one differ in the middle only.
class FfnBackward {
 public:
  FfnBackward(FfnSaved saved, GroupedFfn options, at::Tensor gradient)
      : saved_(std::move(saved)),
        options_(std::move(options)),
        gradient_(std::move(gradient)) {}

  at::Tensor of_weight2() const {
    return grad_of_weight(
        gradient_,
        saved_.active.defined() ? saved_.active : gate() * saved_.factor,
        options_.rows);
  }
  at::Tensor of_bias2() const { return grad_of_bias(gradient_, options_.rows); }

  // The gradients of x W1 + b1 and of x W3 + b3; the second is undefined
  // without a gate.
  std::pair<at::Tensor, at::Tensor> of_products() const {
    const at::Tensor of_active =
        grad_of_rows(gradient_, saved_.weight2, options_.rows);
    if (!saved_.factor.defined()) {
      return {backward_of_gate(of_active), at::Tensor()};
    }
    return {backward_of_gate(of_active * saved_.factor), of_active * gate()};
  }

 private:
  at::Tensor gate() const {
    return activate(saved_.hidden, options_.activation);
  }
  at::Tensor backward_of_gate(const at::Tensor& gradient) const {
    return activate_backward(gradient, saved_.hidden, options_.activation);
  }

  const FfnSaved saved_;
  const GroupedFfn options_;
  const at::Tensor gradient_;
};

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
      const c10::optional<at::Tensor>& weight3,
      const c10::optional<at::Tensor>& bias3,
      const GroupedFfn& options) {
    FfnSaved saved{x, weight1, weight2};
    saved.hidden = products(x, weight1, bias1, options.rows);
    at::Tensor active = activate(saved.hidden, options.activation);
    if (weight3) {
      saved.weight3 = *weight3;
      saved.factor = products(x, *weight3, *bias3, options.rows);
      active.mul_(saved.factor);
    } else {
      saved.active = active;
    }
    context->save_for_backward(saved.list());
    torch_hooks::keep_value(*context, "options", options);
    const at::Tensor share =
        options.bias_share == 1 ? bias2 : bias2 * options.bias_share;
    return products(active, weight2, share, options.rows);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[expert.grouped_experts] has no second derivative");
    const FfnSaved saved = FfnSaved::from(context->get_saved_variables());
    const auto options =
        torch_hooks::kept_value<GroupedFfn>(*context, "options");
    const auto& rows = options.rows;
    const bool is_gated = saved.factor.defined();
    const auto needs = [&](std::size_t i) {
      return (i < 5 || is_gated) && context->needs_input_grad(i);
    };
    const FfnBackward backward(saved, options, grads[0].contiguous());
    // In the order of forward's arguments.
    variable_list own(8);
    own[3] = needs(3) ? backward.of_weight2() : at::Tensor();
    own[4] = needs(4) ? backward.of_bias2() : at::Tensor();
    if (!needs(0) && !needs(1) && !needs(2) && !needs(5) && !needs(6)) {
      return own;
    }
    const auto [hidden, factor] = backward.of_products();
    own[1] = needs(1) ? grad_of_weight(hidden, saved.x, rows) : at::Tensor();
    own[2] = needs(2) ? grad_of_bias(hidden, rows) : at::Tensor();
    own[5] = needs(5) ? grad_of_weight(factor, saved.x, rows) : at::Tensor();
    own[6] = needs(6) ? grad_of_bias(factor, rows) : at::Tensor();
    if (needs(0)) {
      own[0] = grad_of_rows(hidden, saved.weight1, rows);
      if (is_gated) {
        own[0].add_(grad_of_rows(factor, saved.weight3, rows));
      }
    }
    return own;
  }
};

} // namespace

bool is_gated(ExpertActivation activation) {
  return activation == ExpertActivation::SwiGlu ||
      activation == ExpertActivation::GeGlu;
}

at::Tensor grouped_ffn(
    const at::Tensor& x,
    const GroupedWeights& weights,
    const GroupedFfn& options) {
  const auto cast = [](const at::Tensor& tensor) {
    return tensor.defined()
        ? c10::make_optional(tensor_parallel::autocast(tensor))
        : c10::nullopt;
  };
  return Ffn::apply(
      tensor_parallel::autocast(x).contiguous(),
      tensor_parallel::autocast(weights.weight1),
      tensor_parallel::autocast(weights.bias1),
      tensor_parallel::autocast(weights.weight2),
      tensor_parallel::autocast(weights.bias2),
      cast(weights.weight3),
      cast(weights.bias3),
      options);
}

} // namespace argosy::expert
