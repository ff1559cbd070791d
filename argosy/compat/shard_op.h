#pragma once

#include <functional>
#include <string>
#include <vector>

#include "argosy/compat/layer_rule.h"
#include "argosy/compat/slice_strategy.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
} // namespace torch::nn

namespace argosy {

// Returns a function that reshards its operands as a strategy says and calls
// `op`:
//
//   auto product = shard_op(
//       [](const auto& x) { return torch::matmul(x[0], x[1]); },
//       mesh, {"mk", "kn"}, {{2, 1}, {1, 4}});
//   at::Tensor y = product({a, b});   // [S(0), S(1)]
//
// Plain tensors must be equal on all ranks.
std::function<at::Tensor(const std::vector<at::Tensor>&)> shard_op(
    std::function<at::Tensor(const std::vector<at::Tensor>&)> op,
    const ProcessMesh& mesh,
    const std::vector<std::string>& letters,
    const OpStrategy& strategy);

// Places an input of a layer.
using InputFn = std::function<at::Tensor(const at::Tensor&)>;

// The same for a layer: places its parameters and buffers, which ops then do
// not move, and its input. The strategy has the slices of the input and, unless
// they follow from those, of the weight:
//
//   layer                   input               weight
//   Linear                  {b, k}              {o, k}
//   Embedding               {b, l}              {v, h}
//   Conv1d, 2d, 3d          {b, c, x, y}        {o, c, 1, 1}
//   ConvTranspose...        {b, c, x, y}        {c, o, 1, 1}
//   convolution of groups   {b, c, x, y}        {c, 1, 1, 1}
//   Batch, Instance,        {b, c}              {c}
//   GroupNorm
//   LayerNorm               {b, 1}              {1}
//   MultiheadAttention      {t, b, 1}           {p, 1}: in_proj_weight
//   LSTM, GRU, RNN          {1, b, 1}           {g, 1}: weight_ih_l0
//     with batch_first      {b, 1, 1}
//   LSTMCell, GRUCell,      {b, 1}              {g, 1}: weight_ih
//   RNNCell
//
// Equal letters are sliced alike. Linear, Embedding and norms take inputs of
// more dims: those between stay whole, or give a number for each dim. Biases
// and running statistics follow, and all weights and biases of a recurrent
// layer (g: rows of the gates). Slices of these save the memory of weights,
// gradients and optimizer states: LSTM, GRU and RNN gather the weights once in
// each forward, and only slices of the batch divide the work.
//
// The input is placed by itself where an op takes a parameter of the layer as
// its weight, as all layers above do; for others, call what is returned on the
// input. All ranks of the mesh call it alike, with equal values. Throws
// InvalidArgument when the strategy does not fit, and for layers without rule.
InputFn shard_layer_by(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const OpStrategy& strategy);

// The same for any layer, by a rule of yours:
//
//   shard_layer_by(*bilinear, mesh, {"b*i", {{"weight", "oij"}, {"bias",
//   "o"}}},
//                  {{1, 1}, {2, 1, 1}});
InputFn shard_layer_by(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const LayerRule& rule,
    const OpStrategy& strategy);

} // namespace argosy
