#include "argosy/tensor_parallel/linear.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>

#include "argosy/comm/functional.h"
#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/torch_hooks/autocast.h"
#include "argosy/torch_hooks/graph_node.h"
#include "argosy/torch_hooks/kept_value.h"
#include "argosy/trace/recorded_call.h"

namespace argosy::tensor_parallel {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// For smaller messages, handing the operation to another thread takes longer
// than the operation.
constexpr std::size_t kOverlapBytes = 64 << 10;

at::Tensor rows_of(const at::Tensor& tensor) {
  return tensor.reshape({-1, tensor.size(-1)});
}

comm::PendingTensor gather(
    const at::Tensor& x, const LinearInput& input, bool sync_op) {
  if (input.cut_dim < 0) {
    return [x] { return x; };
  }
  return comm::gather_shards(
      x, input.cut_dim, input.whole, input.group, sync_op);
}

comm::PendingTensor sum(const at::Tensor& grad, const LinearInput& input) {
  const bool sync_op = !overlaps(grad);
  if (input.cut_dim >= 0) {
    return comm::reduce_shards(
        grad, input.cut_dim, ReduceOp::SUM, input.group, sync_op);
  }
  const WorkPtr work = all_reduce(grad, ReduceOp::SUM, input.group, sync_op);
  return [grad, work] {
    work->wait();
    return grad;
  };
}

// The weight is cut along its outputs, so forward needs the whole input, and
// the gradient of the input is a sum over ranks. Backward overlaps large
// transfers with products: it starts to gather the input (gather_again),
// computes the gradient of the input meanwhile, starts to sum that, and
// computes the gradient of the weight meanwhile.
struct ColumnLinear : Function<ColumnLinear> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const c10::optional<at::Tensor>& bias,
      const LinearInput& input) {
    const at::Tensor whole = gather(x, input, true)();
    context->save_for_backward({input.gather_again ? x : whole, weight});
    torch_hooks::keep_value(*context, "input", input);
    context->saved_data["has_bias"] = bias.has_value();
    return at::linear(whole, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[tensor_parallel.linear] has no second derivative; copy_to() and "
        "torch::linear have");
    const auto saved = context->get_saved_variables();
    const auto input = torch_hooks::kept_value<LinearInput>(*context, "input");
    const bool needs_grad_weight = context->needs_input_grad(1);
    const comm::PendingTensor whole = input.gather_again && needs_grad_weight
        ? gather(saved[0], input, !overlaps(saved[0]))
        : [&] { return saved[0]; };
    const at::Tensor grad = rows_of(grads[0]);
    comm::PendingTensor grad_x = [] { return at::Tensor(); };
    if (context->needs_input_grad(0)) {
      std::vector<std::int64_t> sizes = grads[0].sizes().vec();
      sizes.back() = saved[1].size(1);
      grad_x = sum(grad.mm(saved[1]).view(sizes), input);
    }
    at::Tensor grad_weight;
    if (needs_grad_weight) {
      grad_weight = grad.t().mm(rows_of(whole()));
    }
    const bool needs_grad_bias = context->saved_data["has_bias"].toBool() &&
        context->needs_input_grad(2);
    const at::Tensor grad_bias = needs_grad_bias ? grad.sum(0) : at::Tensor();
    return {grad_x(), grad_weight, grad_bias, {}};
  }
};

} // namespace

at::Tensor autocast(const at::Tensor& tensor) {
  return torch_hooks::cast_as_autocast(tensor, "linear");
}

bool overlaps(const at::Tensor& tensor) {
  return tensor.nbytes() >= kOverlapBytes;
}

at::Tensor column_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const LinearInput& input) {
  ARGOSY_CHECK(
      x.dim() > 0 && x.size(-1) == weight.size(1) &&
          input.cut_dim < x.dim() - 1,
      "[tensor_parallel.linear] the input is {}, expected [..., {}]",
      x.sizes(),
      weight.size(1));
  if (input.group->nranks() == 1) {
    return at::linear(x, weight, bias);
  }
  const auto call = [input](const Tensors& in) {
    return Tensors{ColumnLinear::apply(
        autocast(in[0]),
        autocast(in[1]),
        in[2].defined() ? c10::make_optional(autocast(in[2])) : c10::nullopt,
        input)};
  };
  return trace::recorded_call({x, weight, bias}, call)[0];
}

at::Tensor row_product(const at::Tensor& x, const at::Tensor& weight) {
  ARGOSY_CHECK(
      x.dim() > 0 && x.size(-1) == weight.size(1),
      "[tensor_parallel.linear] the input is {}, expected [..., {}]",
      x.sizes(),
      weight.size(1));
  return at::linear(x, weight);
}

at::Tensor row_linear(
    const at::Tensor& x, const at::Tensor& weight, const GroupPtr& group) {
  // One op for a recording: a cut between the two would sum in memory that the
  // part before has sent.
  const auto call = [group](const Tensors& in) {
    return Tensors{sum_in_place(row_product(in[0], in[1]), group)};
  };
  return trace::recorded_call({x, weight}, call)[0];
}

at::Tensor sum_in_place(const at::Tensor& summand, const GroupPtr& group) {
  if (group->nranks() == 1) {
    return summand;
  }
  return torch_hooks::apply(
      summand,
      [=](const at::Tensor& in) {
        // In place: nobody else needs the summand, because the product before
        // saves only its own inputs.
        at::Tensor out = in.contiguous().detach();
        all_reduce(out, ReduceOp::SUM, group);
        return out;
      },
      [=](const at::Tensor& gradient) {
        return functional::c_identity(gradient, group);
      });
}

} // namespace argosy::tensor_parallel
