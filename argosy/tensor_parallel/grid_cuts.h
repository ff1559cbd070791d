#pragma once

#include <atomic>

#include "argosy/tensor_parallel/grid.h"
#include "argosy/tensor_parallel/nested_cuts.h"

// How a TensorGrid cuts activations and parameters. Not installed.
namespace argosy::tensor_parallel {

// A rank cannot tell from its own part how large those of others are. So ranks
// tell each other once they know that parts may differ; as long as all divide,
// nothing is sent. All ranks change these alike, because all call TensorGrid
// and its layers alike.
struct GridEvenness {
  std::atomic<bool> rows = true;
  std::atomic<bool> features = true;
};

// The axes of a grid, as a layer sees them that takes activations of a layout.
struct GridAxes {
  GroupPtr gathered; // the layer gathers its input over these ranks
  GroupPtr summed;   // and sums its products over these
  GroupPtr depth;    // z
  // `gathered` and `depth`. In three dimensions these ranks have different rows
  // of the same features.
  GroupPtr beside;
  GroupPtr row; // the ranks that share the features of a row
  bool cuts_rows = false;
  std::shared_ptr<GridEvenness> evenness;
};

GridAxes axes_of(const TensorGrid& grid, GridLayout layout);

GridLayout other(GridLayout layout);

// The features of activations on all ranks together, and how many of them are
// never cut apart.
struct Features {
  std::int64_t size = 0;
  std::int64_t unit = 1;
};

// Of activations of that layout, whose features are dim `dim`.
Cuts activation_cuts(
    const GridAxes& axes, std::int64_t dim, std::int64_t unit = 1);

// Of the weight [out, in] of a layer that takes that layout.
Cuts weight_cuts(
    const GridAxes& axes, std::int64_t out_unit, std::int64_t in_unit);

// Of a vector of features for activations of that layout. Each rank stores a
// part that no other rank has; grid_vector() makes what its activations need.
Cuts vector_cuts(const GridAxes& axes, std::int64_t unit = 1);

// Gathers this rank's features of a vector. Backward sums the gradients of the
// ranks that have the same features, and gives each its part.
at::Tensor grid_vector(
    const at::Tensor& part, const Features& features, const GridAxes& axes);

// The sum of a number over the ranks of a group. Collective; blocks.
std::int64_t sum_over(std::int64_t size, const GroupPtr& group);

} // namespace argosy::tensor_parallel

namespace argosy {

std::shared_ptr<tensor_parallel::GridEvenness> evenness_of(
    const TensorGrid& grid);

} // namespace argosy
