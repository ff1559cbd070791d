// LibTorch takes matmul and linear apart, before autograd, into views and
// products of two dims. A view that merges a sharded dim into another would
// have to gather it: a sequence cut in dim 1, heads cut in dim 1. So here they
// stay whole, with gradients that do.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/tensor/move_memo.h"
#include "argosy/dtensor/tensor/plain_gradient.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using OptionalTensor = c10::optional<at::Tensor>;

at::Tensor linear_weight_grad(const at::Tensor& grad, const at::Tensor& input) {
  return at::mm(
      grad.unsqueeze(0).flatten(0, -2).t(), input.unsqueeze(0).flatten(0, -2));
}

at::Tensor weight_grad(const at::Tensor& grad, const at::Tensor& input) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("argosy::linear_weight_grad", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(grad, input);
}

bool requires_grad(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}

bool requires_grad(const OptionalTensor& tensor) {
  return tensor && requires_grad(*tensor);
}

// Runs F::run() below autograd, and records it if a gradient will be asked for.
// F::apply() alone would do, but makes a node of the graph in any case, which
// costs more than the whole dispatch of the op.
template <typename F, typename... Args>
at::Tensor run_recorded(const Args&... args) {
  if (at::GradMode::is_enabled() && (requires_grad(args) || ...)) {
    return F::apply(args...);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return F::run(args...);
}

// Vectors become matrices, and their gradients vectors again.
struct Matmul : Function<Matmul> {
  static at::Tensor run(const at::Tensor& a, const at::Tensor& b) {
    return at::matmul(a, b);
  }

  static at::Tensor forward(
      AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    context->save_for_backward({a, b});
    const at::AutoDispatchBelowADInplaceOrView below;
    return run(a, b);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const MoveMemo one_move;
    const auto saved = context->get_saved_variables();
    const at::Tensor a = saved[0].dim() == 1 ? saved[0].unsqueeze(0) : saved[0];
    const at::Tensor b = saved[1].dim() == 1 ? saved[1].unsqueeze(1) : saved[1];
    at::Tensor grad = grads[0];
    if (saved[1].dim() == 1) {
      grad = grad.unsqueeze(-1);
    }
    if (saved[0].dim() == 1) {
      grad = grad.unsqueeze(-2);
    }
    at::Tensor grad_a;
    at::Tensor grad_b;
    if (context->needs_input_grad(0)) {
      grad_a = at::matmul(grad, b.transpose(-1, -2).conj())
                   .sum_to_size(a.sizes())
                   .view(saved[0].sizes());
    }
    if (context->needs_input_grad(1)) {
      grad_b = saved[1].dim() == 2 && a.dim() > 2
          ? weight_grad(a.conj(), grad) // one product, not one for each batch
          : at::matmul(a.transpose(-1, -2).conj(), grad)
                .sum_to_size(b.sizes())
                .view(saved[1].sizes());
    }
    return {grad_a, grad_b};
  }
};

struct WeightGrad : Function<WeightGrad> {
  static at::Tensor run(const at::Tensor& grad, const at::Tensor& input) {
    return weight_grad(grad, input);
  }

  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& grad,
      const at::Tensor& input) {
    context->save_for_backward({grad, input});
    const at::AutoDispatchBelowADInplaceOrView below;
    return run(grad, input);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    return {at::linear(saved[1], grads[0]), at::matmul(saved[0], grads[0])};
  }
};

at::Tensor sum_of_rows(const at::Tensor& tensor) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(tensor.dim() - 1));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    dims[i] = static_cast<std::int64_t>(i);
  }
  return dims.empty() ? tensor : tensor.sum(dims);
}

struct Linear : Function<Linear> {
  static at::Tensor run(
      const at::Tensor& input,
      const at::Tensor& weight,
      const OptionalTensor& bias) {
    return at::linear(input, weight, bias);
  }

  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& input,
      const at::Tensor& weight,
      const OptionalTensor& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["has_bias"] = bias.has_value();
    const at::AutoDispatchBelowADInplaceOrView below;
    return run(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const MoveMemo one_move;
    const auto saved = context->get_saved_variables();
    const at::Tensor& grad = grads[0];
    at::Tensor grad_input;
    at::Tensor grad_weight;
    at::Tensor grad_bias;
    if (context->needs_input_grad(0)) {
      grad_input = at::matmul(grad, saved[1].conj());
    }
    if (context->needs_input_grad(1)) {
      grad_weight = weight_grad(grad, saved[0].conj());
    }
    if (context->saved_data["has_bias"].toBool() &&
        context->needs_input_grad(2)) {
      grad_bias = sum_of_rows(grad);
    }
    return {grad_input, grad_weight, grad_bias};
  }
};

at::Tensor recorded_matmul(const at::Tensor& a, const at::Tensor& b) {
  record_plain(a);
  record_plain(b);
  return run_recorded<Matmul>(a, b);
}

at::Tensor recorded_weight_grad(
    const at::Tensor& grad, const at::Tensor& input) {
  return run_recorded<WeightGrad>(grad, input);
}

// A weight of one dim is a vector, which matmul knows.
at::Tensor recorded_linear(
    const at::Tensor& input,
    const at::Tensor& weight,
    const OptionalTensor& given_bias) {
  // Recurrent layers without biases give an undefined one.
  const OptionalTensor bias =
      given_bias && given_bias->defined() ? given_bias : OptionalTensor();
  if (weight.dim() == 1) {
    const at::Tensor product = recorded_matmul(input, weight);
    return bias ? at::add(product, *bias) : product;
  }
  record_plain(input);
  record_plain(weight);
  if (bias) {
    record_plain(*bias);
  }
  return run_recorded<Linear>(input, weight, bias);
}

} // namespace

void add_matmul_kernels(torch_hooks::WrapperKernels& kernels) {
  kernels.ours.def("linear_weight_grad(Tensor grad, Tensor input) -> Tensor");
  kernels.ours_cpu.impl("linear_weight_grad", &linear_weight_grad);
  kernels.ours_autograd.impl("linear_weight_grad", &recorded_weight_grad);
  kernels.below.impl("matmul", kernels.execute());
  kernels.below.impl("linear", kernels.execute());
  kernels.autograd.impl("matmul", &recorded_matmul);
  kernels.autograd.impl("linear", &recorded_linear);
}

} // namespace argosy::dtensor
