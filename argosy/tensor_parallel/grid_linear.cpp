#include "argosy/tensor_parallel/grid_linear.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>

#include "argosy/common/error.h"
#include "argosy/tensor_parallel/linear.h"
#include "argosy/torch_hooks/kept_value.h"
#include "argosy/trace/recorded_call.h"

namespace argosy::tensor_parallel {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::int64_t activation_dim(const at::Tensor& x, const GridAxes& axes) {
  return axes.cuts_rows ? 0 : x.dim() - 1;
}

comm::PendingTensor start_gather(
    const at::Tensor& part,
    std::int64_t dim,
    const GroupPtr& group,
    bool sync_op) {
  if (group->nranks() == 1) {
    return [part] { return part; };
  }
  return comm::gather_shards(part, dim, 0, group, sync_op);
}

comm::PendingTensor start_sum(
    const at::Tensor& summand,
    std::int64_t dim,
    const GroupPtr& group,
    bool sync_op) {
  if (group->nranks() == 1) {
    return [summand] { return summand; };
  }
  return comm::reduce_shards(summand, dim, ReduceOp::SUM, group, sync_op);
}

// Gathers the weight over z. A copy of the part is sent, because copying is an
// op: ZeRO 3 brings parameters into memory when ops use them, and collectives
// are no ops.
comm::PendingTensor start_weight(
    const at::Tensor& weight, const GridAxes& axes) {
  const bool is_whole = axes.depth->nranks() == 1;
  return start_gather(
      is_whole ? weight : weight.clone(), 1, axes.depth, !overlaps(weight));
}

// In backward the axes change places: the gradient of the result is gathered
// over the axis that summed, and that of the input is summed over the axis that
// gathered. Both products of backward run while something is on its way: the
// input is gathered during the first, and the gradient of the input is summed
// during the second.
struct GridLinearNode : torch::autograd::Function<GridLinearNode> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const GridProduct& product) {
    const GridAxes& axes = product.axes;
    const std::int64_t dim = activation_dim(x, axes);
    const auto whole_weight = start_weight(weight, axes);
    const at::Tensor input = start_gather(x, dim, axes.gathered, true)();
    const at::Tensor columns = whole_weight();
    context->save_for_backward(
        product.keep_gathered ? variable_list{input, columns}
                              : variable_list{x, weight});
    torch_hooks::keep_value(*context, "product", product);
    return start_sum(at::linear(input, columns), dim, axes.summed, true)();
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[tensor_parallel.grid] has no second derivative, expected backward "
        "without create_graph");
    const auto product =
        torch_hooks::kept_value<GridProduct>(*context, "product");
    const auto saved = context->get_saved_variables();
    const GridAxes& axes = product.axes;
    const std::int64_t dim = activation_dim(saved[0], axes);
    comm::PendingTensor columns = [&] { return saved[1]; };
    comm::PendingTensor input = [&] { return saved[0]; };
    if (!product.keep_gathered && context->needs_input_grad(0)) {
      columns = start_weight(saved[1], axes);
    }
    if (!product.keep_gathered && context->needs_input_grad(1)) {
      input = start_gather(saved[0], dim, axes.gathered, !overlaps(saved[0]));
    }
    const at::Tensor grad = start_gather(grads[0], dim, axes.summed, true)();
    comm::PendingTensor grad_x = [] { return at::Tensor(); };
    if (context->needs_input_grad(0)) {
      const at::Tensor summand = grad.matmul(columns());
      grad_x = start_sum(summand, dim, axes.gathered, !overlaps(summand));
    }
    at::Tensor grad_weight;
    if (context->needs_input_grad(1)) {
      const at::Tensor sum = grad.flatten(0, -2).t().mm(input().flatten(0, -2));
      grad_weight = start_sum(sum, 1, axes.depth, true)();
    }
    return {grad_x(), grad_weight, {}};
  }
};

} // namespace

at::Tensor grid_product(
    const at::Tensor& x, const at::Tensor& weight, const GridProduct& product) {
  const auto call = [product](const Tensors& in) {
    return Tensors{
        GridLinearNode::apply(autocast(in[0]), autocast(in[1]), product)};
  };
  return trace::recorded_call({x, weight}, call)[0];
}

} // namespace argosy::tensor_parallel
