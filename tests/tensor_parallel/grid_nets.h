#pragma once

// Nets on a grid of ranks, and the same in one process.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "argosy/tensor_parallel/grid_layers.h"
#include "argosy/tensor_parallel/nested_cuts.h"
#include "argosy/tensor_parallel/parameters.h"
#include "tests/support/oracle_models.h"

namespace argosy::testing {

using Shape = std::vector<std::int64_t>;

inline int ranks_of(const Shape& shape) {
  int count = 1;
  for (const std::int64_t size : shape) {
    count *= static_cast<int>(size);
  }
  return count;
}

inline bool is_close(const at::Tensor& got, const at::Tensor& expected) {
  return got.sizes() == expected.sizes() &&
      torch::allclose(got, expected, 1e-10, 1e-12);
}

struct MlpSizes {
  long rows;
  long width;
  long hidden;
};

struct WholeNetImpl : torch::nn::Module {
  explicit WholeNetImpl(const MlpSizes& of)
      : norm(register_module(
            "norm",
            torch::nn::LayerNorm(torch::nn::LayerNormOptions({of.width})))),
        up(register_module("up", torch::nn::Linear(of.width, of.hidden))),
        down(register_module("down", torch::nn::Linear(of.hidden, of.width))) {}

  at::Tensor forward(const at::Tensor& x) {
    return x + down(torch::gelu(up(norm(x))));
  }

  torch::nn::LayerNorm norm;
  torch::nn::Linear up;
  torch::nn::Linear down;
};
TORCH_MODULE(WholeNet);

struct GridNetImpl : torch::nn::Module {
  GridNetImpl(const MlpSizes& of, const TensorGrid& grid, bool keep_gathered)
      : norm(register_module(
            "norm", GridLayerNorm(GridLayerNormOptions(of.width, grid)))),
        up(register_module(
            "up",
            GridLinear(GridLinearOptions(of.width, of.hidden, grid)
                           .keep_gathered(keep_gathered)))),
        down(register_module(
            "down",
            GridLinear(GridLinearOptions(of.hidden, of.width, grid)
                           .input(GridLayout::Inner)
                           .keep_gathered(keep_gathered)))) {}

  at::Tensor forward(const at::Tensor& x) {
    return x + down(torch::gelu(up(norm(x))));
  }

  GridLayerNorm norm;
  GridLinear up;
  GridLinear down;
};
TORCH_MODULE(GridNet);

// Values and gradients of a net on a grid against those of one process, for an
// input of this shape.
template <typename Net, typename GridNet>
void compare(Net& whole, GridNet& net, const TensorGrid& grid, Shape shape) {
  const at::Tensor weight = numbers(shape, 6); // of the loss
  const at::Tensor whole_x = numbers(shape, 5).requires_grad_();
  whole->zero_grad();
  const at::Tensor whole_y = whole(whole_x);
  (whole_y * weight).sum().backward();

  net->to(torch::kDouble);
  tensor_parallel::load_module(*net, *whole);
  const at::Tensor x = whole_x.detach().clone().requires_grad_();
  const at::Tensor y = grid.whole(net(grid.part(x)));
  EXPECT_TRUE(is_close(y, whole_y));
  (y * weight).sum().backward();
  EXPECT_TRUE(is_close(x.grad(), whole_x.grad()));
  const auto expected = whole->named_parameters();
  for (const auto& item : net->named_parameters()) {
    const at::Tensor& wanted = expected[item.key()];
    EXPECT_TRUE(is_close(
        tensor_parallel::full_parameter(item.value()), wanted.detach()))
        << item.key();
    const tensor_parallel::Cuts* cuts =
        tensor_parallel::find_cuts(item.value());
    const at::Tensor gradient = item.value().grad();
    EXPECT_TRUE(is_close(
        cuts == nullptr ? gradient : tensor_parallel::gathered(gradient, *cuts),
        wanted.grad()))
        << item.key();
  }
}

inline void compare(
    const MlpSizes& of, const TensorGrid& grid, bool keep_gathered) {
  WholeNet whole(of);
  set_weights(*whole);
  GridNet net(of, grid, keep_gathered);
  compare(whole, net, grid, {of.rows, 3, of.width});
}

} // namespace argosy::testing
