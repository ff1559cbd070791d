#include "argosy/tensor_parallel/grid_layers.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/tensor_parallel/grid_linear.h"
#include "argosy/tensor_parallel/initial_values.h"
#include "argosy/tensor_parallel/linear.h"

namespace argosy {

namespace {

using tensor_parallel::check_even;
using tensor_parallel::Cuts;
using tensor_parallel::GridAxes;

std::shared_ptr<const GridAxes> shared_axes(
    const TensorGrid& grid, GridLayout layout) {
  return std::make_shared<const GridAxes>(
      tensor_parallel::axes_of(grid, layout));
}

void check_part(
    const at::Tensor& x,
    std::int64_t features,
    GridLayout layout,
    const GridAxes& axes) {
  const std::int64_t own =
      own_range(features, 1, activation_cuts(axes, 1)).size;
  ARGOSY_CHECK(
      x.dim() >= 2 && x.size(-1) == own,
      "[tensor_parallel.grid] the input is {}, expected this rank's part of "
      "layout {}, [rows, ..., {}], as TensorGrid::part() makes it",
      x.sizes(),
      layout,
      own);
}

// A product gathers rows over one axis and scatters them over the other.
void check_scatter(const at::Tensor& x, const GridAxes& axes) {
  const std::int64_t rows = x.size(0) * axes.gathered->nranks();
  const int parts = axes.summed->nranks();
  ARGOSY_CHECK(
      !axes.cuts_rows || rows % parts == 0,
      "[tensor_parallel.grid] {} rows in a plane of the grid, expected a "
      "multiple of {}, the ranks that share the rows of the result",
      rows,
      parts);
}

} // namespace

GridLinearImpl::GridLinearImpl(GridLinearOptions its_options)
    : options(std::move(its_options)),
      axes_(shared_axes(options.grid, options.input())),
      out_axes_(
          shared_axes(options.grid, tensor_parallel::other(options.input()))) {
  reset();
}

void GridLinearImpl::reset() {
  const std::int64_t in = options.in_features();
  const std::int64_t out = options.out_features();
  const Cuts cuts = weight_cuts(*axes_);
  const Cuts bias_cuts = vector_cuts(*out_axes_);
  check_even("inputs", in, 0, vector_cuts(*axes_));
  check_even("outputs", out, 0, bias_cuts);
  const auto values = tensor_parallel::draw_linear(
      {in, out, options.bias()},
      {own_range(out, 0, cuts), own_range(in, 1, cuts)},
      own_range(out, 0, bias_cuts));
  weight = values.weight;
  set_cuts(weight, cuts);
  register_parameter("weight", weight);
  bias = values.bias;
  if (bias.defined()) {
    set_cuts(bias, bias_cuts);
  }
  register_parameter("bias", bias, options.bias());
}

at::Tensor GridLinearImpl::forward(const at::Tensor& x) {
  check_part(x, options.in_features(), options.input(), *axes_);
  check_scatter(x, *axes_);
  const at::Tensor y = tensor_parallel::grid_product(
      x, weight, {*axes_, options.keep_gathered()});
  return options.bias()
      ? y + grid_vector(tensor_parallel::autocast(bias), *out_axes_)
      : y;
}

GridLayerNormImpl::GridLayerNormImpl(GridLayerNormOptions its_options)
    : options(std::move(its_options)),
      axes_(shared_axes(options.grid, options.layout())) {
  reset();
}

void GridLayerNormImpl::reset() {
  const Cuts cuts = vector_cuts(*axes_);
  check_even("features", options.features(), 0, cuts);
  const std::int64_t own = own_range(options.features(), 0, cuts).size;
  const bool affine = options.elementwise_affine();
  weight = affine ? at::ones({own}) : at::Tensor();
  bias = affine ? at::zeros({own}) : at::Tensor();
  if (affine) {
    set_cuts(weight, cuts);
    set_cuts(bias, cuts);
  }
  register_parameter("weight", weight, affine);
  register_parameter("bias", bias, affine);
}

at::Tensor GridLayerNormImpl::forward(const at::Tensor& x) {
  check_part(x, options.features(), options.layout(), *axes_);
  const at::Tensor y = tensor_parallel::grid_normalize(
      x, options.features(), options.eps(), axes_->row);
  return options.elementwise_affine()
      ? y * grid_vector(weight, *axes_) + grid_vector(bias, *axes_)
      : y;
}

} // namespace argosy
