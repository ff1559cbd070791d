#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "argosy/tensor_parallel/grid.h"

// Layers on a TensorGrid: weights and activations are cut in two or three
// dimensions, and each rank has 1/n of both. They take and return this rank's
// part of activations [rows, ..., features]; grid.part() and grid.whole() lead
// in and out. What tensor_parallel/layers.h says about initial values, and that
// all ranks construct and call layers alike, holds for these too. Sizes need
// not divide by the ranks that share them; what is sent is then padded.
//
//   argosy::TensorGrid grid({2, 2});
//   argosy::GridLinear up(argosy::GridLinearOptions(8, 32, grid));
//   argosy::GridLinear down(argosy::GridLinearOptions(32, 8, grid)
//                               .input(argosy::GridLayout::Inner));
//   at::Tensor y = grid.whole(down(torch::gelu(up(grid.part(x)))));
namespace argosy {

namespace tensor_parallel {
struct GridAxes;
}

struct GridLinearOptions {
  GridLinearOptions(
      std::int64_t in_features, std::int64_t out_features, TensorGrid its_grid)
      : in_features_(in_features),
        out_features_(out_features),
        grid(std::move(its_grid)) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  // The layout of the input; the output has the other one.
  TORCH_ARG(GridLayout, input) = GridLayout::Outer;
  // How many features of the input and of the output always stay together on
  // one rank, such as those of a head. Must divide the features.
  TORCH_ARG(std::int64_t, in_unit) = 1;
  TORCH_ARG(std::int64_t, out_unit) = 1;
  // Keep the gathered input and weight for backward, instead of gathering them
  // again: faster, with more memory.
  TORCH_ARG(bool, keep_gathered) = false;

 public:
  TensorGrid grid;
};

// y = x W^T + b. Forward gathers x over one axis, in three dimensions W over z,
// and reduces and scatters the product over the other axis. Has no second
// derivative. Throws InvalidArgument if sizes do not match.
class GridLinearImpl : public torch::nn::Cloneable<GridLinearImpl> {
 public:
  explicit GridLinearImpl(GridLinearOptions its_options);

  void reset() override;
  at::Tensor forward(const at::Tensor& x);

  GridLinearOptions options;
  at::Tensor weight; // a part of [out, in]
  at::Tensor bias;   // a part of [out]

 private:
  std::shared_ptr<const tensor_parallel::GridAxes> axes_;
  std::shared_ptr<const tensor_parallel::GridAxes> out_axes_;
};
TORCH_MODULE(GridLinear);

struct GridLayerNormOptions {
  GridLayerNormOptions(std::int64_t features, TensorGrid its_grid)
      : features_(features), grid(std::move(its_grid)) {}

  TORCH_ARG(std::int64_t, features);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(bool, elementwise_affine) = true;
  TORCH_ARG(GridLayout, layout) = GridLayout::Outer;

 public:
  TensorGrid grid;
};

// torch::nn::LayerNorm over the last dim. Over the ranks that share the
// features of a row it sums two numbers a row in forward, and two in backward.
// Has no second derivative.
class GridLayerNormImpl : public torch::nn::Cloneable<GridLayerNormImpl> {
 public:
  explicit GridLayerNormImpl(GridLayerNormOptions its_options);

  void reset() override;
  at::Tensor forward(const at::Tensor& x);

  GridLayerNormOptions options;
  at::Tensor weight; // a part of [features]
  at::Tensor bias;   // a part of [features]

 private:
  std::shared_ptr<const tensor_parallel::GridAxes> axes_;
};
TORCH_MODULE(GridLayerNorm);

} // namespace argosy
