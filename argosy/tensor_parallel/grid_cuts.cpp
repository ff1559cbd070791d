#include "argosy/tensor_parallel/grid_cuts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "argosy/comm/functional.h"
#include "argosy/comm/operation/label.h"

// A product y = x W^T on the grid, with rows r, inputs i, outputs o, and the
// letters of the axes that share a dim, the outermost first (g: gathered, s:
// summed, z: depth):
//
//                   two dimensions      three dimensions
//   x               r, i:s,g            r:z,g  i:s
//   gathered (g)    r, i:s              r:z    i:s
//   W               o:g  i:s            o:g    i:s,z
//   gathered (z)                        o:g    i:s
//   product         r, o:g, summands    r:z    o:g, summands over s
//   scattered (s)   r, o:g,s            r:z,s  o:g
//
// The result is cut as x is, with s and g exchanged.
namespace argosy::tensor_parallel {

GridAxes axes_of(const TensorGrid& grid, GridLayout layout) {
  const bool is_outer = layout == GridLayout::Outer;
  const std::string gathered = is_outer ? "y" : "x";
  const GroupPtr summed = grid.group_over({is_outer ? "x" : "y"});
  return {
      .gathered = grid.group_over({gathered}),
      .summed = summed,
      .depth = grid.group_over({"z"}),
      .beside = grid.group_over({"z", gathered}),
      .row = grid.cuts_rows() ? summed : grid.group_over({"x", "y"}),
      .cuts_rows = grid.cuts_rows(),
      .evenness = evenness_of(grid)};
}

GridLayout other(GridLayout layout) {
  return layout == GridLayout::Outer ? GridLayout::Inner : GridLayout::Outer;
}

Cuts activation_cuts(
    const GridAxes& axes, std::int64_t dim, std::int64_t unit) {
  const Cut features{.dim = dim, .group = axes.summed, .unit = unit};
  if (axes.cuts_rows) {
    return {{0, axes.depth}, {0, axes.gathered}, features};
  }
  return {features, {.dim = dim, .group = axes.gathered, .unit = unit}};
}

// Where z cuts a part again, each rank has whole units before.
Cuts weight_cuts(
    const GridAxes& axes, std::int64_t out_unit, std::int64_t in_unit) {
  return {
      {.dim = 0, .group = axes.gathered, .unit = out_unit},
      {.dim = 1, .group = axes.summed, .unit = in_unit},
      {.dim = 1, .group = axes.depth}};
}

// In two dimensions a rank uses what it stores, so that must be whole units.
Cuts vector_cuts(const GridAxes& axes, std::int64_t unit) {
  return {
      {.dim = 0, .group = axes.summed, .unit = unit},
      {.dim = 0, .group = axes.beside, .unit = axes.cuts_rows ? 1 : unit}};
}

at::Tensor grid_vector(
    const at::Tensor& part, const Features& features, const GridAxes& axes) {
  const bool is_cut = axes.cuts_rows && axes.beside->nranks() > 1;
  // A copy, because ZeRO 3 brings parameters into memory when ops use them, and
  // collectives are no ops.
  return is_cut
      ? functional::all_gather(
            part.clone(),
            axes.beside,
            0,
            range_of(
                features.size, {.group = axes.summed, .unit = features.unit})
                .size)
      : part;
}

std::int64_t sum_over(std::int64_t size, const GroupPtr& group) {
  if (group->nranks() == 1) {
    return size;
  }
  static const OpLabel label("sizes of parts on a grid");
  const LabelScope scope(label);
  const at::Tensor sum = at::full({1}, size, at::kLong);
  all_reduce(sum, ReduceOp::SUM, group);
  return sum.item<std::int64_t>();
}

} // namespace argosy::tensor_parallel
