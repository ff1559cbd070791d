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

// What forward and backward gather and sum. The sizes of features are known;
// those of rows are not, where rows are cut.
struct ProductCuts {
  Cut input;   // over `gathered`
  Cut weight;  // over `depth`
  Cut outputs; // over `summed`

  static ProductCuts of(const at::Tensor& x, const GridProduct& product) {
    const GridAxes& axes = product.axes;
    const Features& in = product.in;
    const Features& out = product.out;
    const std::int64_t ins =
        range_of(in.size, {.group = axes.summed, .unit = in.unit}).size;
    const Cut weight{.dim = 1, .group = axes.depth, .size = ins};
    if (axes.cuts_rows) {
      const std::int64_t rows = plane_rows(x, axes);
      return {{0, axes.gathered, rows}, weight, {0, axes.summed, rows}};
    }
    const std::int64_t last = x.dim() - 1;
    const std::int64_t outs =
        range_of(out.size, {.group = axes.gathered, .unit = out.unit}).size;
    return {
        {last, axes.gathered, ins, in.unit},
        weight,
        {last, axes.summed, outs, out.unit}};
  }
};

// Gathers the weight over z. A copy of the part is sent, because copying is an
// op: ZeRO 3 brings parameters into memory when ops use them, and collectives
// are no ops.
comm::PendingTensor start_weight(const at::Tensor& weight, const Cut& cut) {
  const bool is_whole = cut.group->nranks() == 1;
  return gather_cut(is_whole ? weight : weight.clone(), cut, !overlaps(weight));
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
    const ProductCuts cuts = ProductCuts::of(x, product);
    const auto whole_weight = start_weight(weight, cuts.weight);
    const at::Tensor input = gather_cut(x, cuts.input)();
    const at::Tensor columns = whole_weight();
    context->save_for_backward(
        product.keep_gathered ? variable_list{input, columns}
                              : variable_list{x, weight});
    torch_hooks::keep_value(*context, "keeps", product.keep_gathered);
    torch_hooks::keep_value(*context, "cuts", cuts);
    return sum_cut(at::linear(input, columns), cuts.outputs)();
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[tensor_parallel.grid] has no second derivative, expected backward "
        "without create_graph");
    const auto keeps = torch_hooks::kept_value<bool>(*context, "keeps");
    const auto saved = context->get_saved_variables();
    const auto cuts = torch_hooks::kept_value<ProductCuts>(*context, "cuts");
    comm::PendingTensor columns = [&] { return saved[1]; };
    comm::PendingTensor input = [&] { return saved[0]; };
    if (!keeps && context->needs_input_grad(0)) {
      columns = start_weight(saved[1], cuts.weight);
    }
    if (!keeps && context->needs_input_grad(1)) {
      input = gather_cut(saved[0], cuts.input, !overlaps(saved[0]));
    }
    const at::Tensor grad = gather_cut(grads[0], cuts.outputs)();
    comm::PendingTensor grad_x = [] { return at::Tensor(); };
    if (context->needs_input_grad(0)) {
      const at::Tensor summand = grad.matmul(columns());
      grad_x = sum_cut(summand, cuts.input, !overlaps(summand));
    }
    at::Tensor grad_weight;
    if (context->needs_input_grad(1)) {
      const at::Tensor sum = grad.flatten(0, -2).t().mm(input().flatten(0, -2));
      grad_weight = sum_cut(sum, cuts.weight)();
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
