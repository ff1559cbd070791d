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

using tensor_parallel::Cuts;
using tensor_parallel::Features;
using tensor_parallel::GridAxes;

std::shared_ptr<const GridAxes> shared_axes(
    const TensorGrid& grid, GridLayout layout) {
  return std::make_shared<const GridAxes>(
      tensor_parallel::axes_of(grid, layout));
}

void check_part(
    const at::Tensor& x,
    const Features& features,
    GridLayout layout,
    const GridAxes& axes) {
  const std::int64_t own =
      own_range(features.size, 1, activation_cuts(axes, 1, features.unit)).size;
  ARGOSY_CHECK(
      x.dim() >= 2 && x.size(-1) == own,
      "[tensor_parallel.grid] the input is {}, expected this rank's part of "
      "layout {}, [rows, ..., {}], as TensorGrid::part() makes it",
      x.sizes(),
      layout,
      own);
}

// Takes note of features that do not divide over the ranks of a grid.
void note_features(
    const char* what, const Features& features, const GridAxes& axes) {
  ARGOSY_CHECK(
      features.size > 0,
      "[tensor_parallel.grid] {} {}, expected 1 or more",
      features.size,
      what);
  ARGOSY_CHECK(
      features.unit > 0 && features.size % features.unit == 0,
      "[tensor_parallel.grid] units of {} for {} {}, expected a number that "
      "divides them",
      features.unit,
      features.size,
      what);
  if (!divides(features.size / features.unit, 1, activation_cuts(axes, 1))) {
    axes.evenness->features = false;
  }
}

Features ins_of(const GridLinearOptions& options) {
  return {options.in_features(), options.in_unit()};
}

Features outs_of(const GridLinearOptions& options) {
  return {options.out_features(), options.out_unit()};
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
  note_features("inputs", ins_of(options), *axes_);
  note_features("outputs", outs_of(options), *out_axes_);
  const Cuts cuts = with_sizes(
      weight_cuts(*axes_, options.out_unit(), options.in_unit()), {out, in});
  const Cuts bias_cuts =
      with_sizes(vector_cuts(*out_axes_, options.out_unit()), {out});
  const auto values = tensor_parallel::draw_linear(
      {in, out, options.bias()},
      {own_range(out, 0, cuts), own_range(in, 1, cuts)},
      own_range(out, 0, bias_cuts));
  weight = values.weight;
  set_cuts(weight, cuts, {out, in});
  register_parameter("weight", weight);
  bias = values.bias;
  if (bias.defined()) {
    set_cuts(bias, bias_cuts, {out});
  }
  register_parameter("bias", bias, options.bias());
}

at::Tensor GridLinearImpl::forward(const at::Tensor& x) {
  check_part(x, ins_of(options), options.input(), *axes_);
  const at::Tensor y = tensor_parallel::grid_product(
      x,
      weight,
      {.axes = *axes_,
       .in = ins_of(options),
       .out = outs_of(options),
       .keep_gathered = options.keep_gathered()});
  return options.bias()
      ? y +
          grid_vector(
              tensor_parallel::autocast(bias), outs_of(options), *out_axes_)
      : y;
}

GridLayerNormImpl::GridLayerNormImpl(GridLayerNormOptions its_options)
    : options(std::move(its_options)),
      axes_(shared_axes(options.grid, options.layout())) {
  reset();
}

void GridLayerNormImpl::reset() {
  const Cuts cuts = with_sizes(vector_cuts(*axes_), {options.features()});
  note_features("features", {options.features()}, *axes_);
  const std::int64_t own = own_range(options.features(), 0, cuts).size;
  const bool affine = options.elementwise_affine();
  weight = affine ? at::ones({own}) : at::Tensor();
  bias = affine ? at::zeros({own}) : at::Tensor();
  if (affine) {
    set_cuts(weight, cuts, {options.features()});
    set_cuts(bias, cuts, {options.features()});
  }
  register_parameter("weight", weight, affine);
  register_parameter("bias", bias, affine);
}

at::Tensor GridLayerNormImpl::forward(const at::Tensor& x) {
  check_part(x, {options.features()}, options.layout(), *axes_);
  const at::Tensor y = tensor_parallel::grid_normalize(
      x, options.features(), options.eps(), axes_->row);
  const auto all = [&](const at::Tensor& part) {
    return grid_vector(part, {options.features()}, *axes_);
  };
  return options.elementwise_affine() ? y * all(weight) + all(bias) : y;
}

} // namespace argosy
