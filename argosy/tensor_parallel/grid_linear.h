#pragma once

#include "argosy/tensor_parallel/grid_cuts.h"

// The computations of layers on a TensorGrid. Not installed.
namespace argosy::tensor_parallel {

struct GridProduct {
  GridAxes axes;
  Features in;
  Features out;
  // Keep what forward gathered for backward, instead of gathering it again.
  bool keep_gathered = false;
};

// x W^T of which all ranks have parts, as grid_cuts.cpp says. Has no second
// derivative.
at::Tensor grid_product(
    const at::Tensor& x, const at::Tensor& weight, const GridProduct& product);

// Subtracts the mean of the features of each row, and divides by their
// deviation. `x` has a part of the features; the ranks of `group` together have
// all `features`. Has no second derivative.
at::Tensor grid_normalize(
    const at::Tensor& x,
    std::int64_t features,
    double eps,
    const GroupPtr& group);

} // namespace argosy::tensor_parallel
