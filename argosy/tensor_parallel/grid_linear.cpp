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

// A dim to gather, and its size after that.
struct Gather {
  std::int64_t dim = 0;
  std::int64_t size = 0;
};

comm::PendingTensor start_gather(
    const at::Tensor& part,
    const Gather& gather,
    const GroupPtr& group,
    bool sync_op) {
  if (group->nranks() == 1) {
    return [part] { return part; };
  }
  return comm::gather_shards(part, gather.dim, gather.size, group, sync_op);
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

// The rows of this plane of the grid, of which x has some.
std::int64_t plane_rows(const at::Tensor& x, const GridAxes& axes) {
  if (!axes.evenness->rows) {
    return sum_over(x.size(0), axes.gathered);
  }
  const std::int64_t rows = x.size(0) * axes.gathered->nranks();
  // The next layer gets parts of different sizes.
  axes.evenness->rows = rows % axes.summed->nranks() == 0;
  return rows;
}

// What forward and backward gather. The sizes of features are known; those of
// rows are not, where rows are cut.
struct Sizes {
  Gather input;   // over `gathered`
  Gather weight;  // over `depth`
  Gather outputs; // over `summed`

  static Sizes of(const at::Tensor& x, const GridProduct& product) {
    const GridAxes& axes = product.axes;
    const std::int64_t in =
        own_range(product.in_features, 0, {{0, axes.summed}}).size;
    const std::int64_t out =
        own_range(product.out_features, 0, {{0, axes.gathered}}).size;
    if (axes.cuts_rows) {
      const std::int64_t rows = plane_rows(x, axes);
      return {{0, rows}, {1, in}, {0, rows}};
    }
    return {{x.dim() - 1, in}, {1, in}, {x.dim() - 1, out}};
  }
};

// Gathers the weight over z. A copy of the part is sent, because copying is an
// op: ZeRO 3 brings parameters into memory when ops use them, and collectives
// are no ops.
comm::PendingTensor start_weight(
    const at::Tensor& weight, const Gather& gather, const GridAxes& axes) {
  const bool is_whole = axes.depth->nranks() == 1;
  return start_gather(
      is_whole ? weight : weight.clone(),
      gather,
      axes.depth,
      !overlaps(weight));
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
    const Sizes sizes = Sizes::of(x, product);
    const auto whole_weight = start_weight(weight, sizes.weight, axes);
    const at::Tensor input =
        start_gather(x, sizes.input, axes.gathered, true)();
    const at::Tensor columns = whole_weight();
    context->save_for_backward(
        product.keep_gathered ? variable_list{input, columns}
                              : variable_list{x, weight});
    torch_hooks::keep_value(*context, "product", product);
    torch_hooks::keep_value(*context, "sizes", sizes);
    return start_sum(
        at::linear(input, columns), sizes.outputs.dim, axes.summed, true)();
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
    const auto sizes = torch_hooks::kept_value<Sizes>(*context, "sizes");
    comm::PendingTensor columns = [&] { return saved[1]; };
    comm::PendingTensor input = [&] { return saved[0]; };
    if (!product.keep_gathered && context->needs_input_grad(0)) {
      columns = start_weight(saved[1], sizes.weight, axes);
    }
    if (!product.keep_gathered && context->needs_input_grad(1)) {
      input = start_gather(
          saved[0], sizes.input, axes.gathered, !overlaps(saved[0]));
    }
    const at::Tensor grad =
        start_gather(grads[0], sizes.outputs, axes.summed, true)();
    comm::PendingTensor grad_x = [] { return at::Tensor(); };
    if (context->needs_input_grad(0)) {
      const at::Tensor summand = grad.matmul(columns());
      grad_x = start_sum(
          summand, sizes.input.dim, axes.gathered, !overlaps(summand));
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
