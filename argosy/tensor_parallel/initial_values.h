#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "argosy/comm/shards.h"

namespace torch::nn {
class Module;
}

// Initial values of layers that are split over ranks: each rank gets its slice
// of the values that torch::nn's layer would draw from the same generator. Not
// installed.
namespace argosy::tensor_parallel {

// The rank's kGlobalRng, or torch's default generator if the rank has none. All
// ranks of a group must draw the same numbers from it.
at::Generator initial_generator();

// A matrix whose dim `dim` is split over a group; -1: it is not split.
struct CutMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int dim = -1;
  const Group& group;
};

// Fills the whole matrix, one block of rows after the other, and returns this
// rank's slice. `fill` draws the elements of a block in order.
at::Tensor draw_part(
    const CutMatrix& matrix, const std::function<void(at::Tensor&)>& fill);

// A rank's range of both dims of a matrix.
struct MatrixBox {
  comm::ShardRange rows;
  comm::ShardRange columns;
};

// The values that torch::nn::Linear draws.
struct LinearValues {
  at::Tensor weight;
  at::Tensor bias; // undefined without bias
};

struct LinearSize {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
};

// Draws the weight and the bias of a linear layer. Keeps `own` of the weight
// [out, in], and `own_bias` of the bias.
LinearValues draw_linear(
    const LinearSize& size,
    const MatrixBox& own,
    const comm::ShardRange& own_bias);

// A linear layer of which this rank holds a slice.
struct CutLinear {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  int dim = 0; // split dim of the weight [out, in]; 0 splits the bias too
};

// Registers "weight" and "bias" with this rank's slices of the values that
// torch::nn::Linear draws.
void add_linear(
    torch::nn::Module& module,
    const CutLinear& linear,
    const GroupPtr& group,
    at::Tensor& weight,
    at::Tensor& bias);

// The same for a layer with the options of a linear layer.
template <typename Layer>
void add_linear(Layer& layer, int dim, const GroupPtr& group) {
  const auto& options = layer.options;
  add_linear(
      layer,
      {options.in_features(), options.out_features(), options.bias(), dim},
      group,
      layer.weight,
      layer.bias);
}

// Marks a parameter that is split along `dim`, which has `size` elements on all
// ranks together, unless the group has one rank.
void mark_cut(
    const at::Tensor& parameter,
    int dim,
    std::int64_t size,
    const GroupPtr& group);

} // namespace argosy::tensor_parallel
