#pragma once

#include "argosy/tensor_parallel/grid.h"
#include "argosy/tensor_parallel/nested_cuts.h"

// How a TensorGrid cuts activations and parameters. Not installed.
namespace argosy::tensor_parallel {

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
};

GridAxes axes_of(const TensorGrid& grid, GridLayout layout);

GridLayout other(GridLayout layout);

// Of activations of that layout, whose last dim is `features`.
Cuts activation_cuts(const GridAxes& axes, std::int64_t features);

// Of the weight [out, in] of a layer that takes that layout.
Cuts weight_cuts(const GridAxes& axes);

// Of a vector [features] for activations of that layout. Each rank stores a
// part that no other rank has; grid_vector() makes what its activations need.
Cuts vector_cuts(const GridAxes& axes);

// Gathers this rank's features of a vector. Backward sums the gradients of the
// ranks that have the same features, and gives each its part.
at::Tensor grid_vector(const at::Tensor& part, const GridAxes& axes);

} // namespace argosy::tensor_parallel
