#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace argosy::pipeline {

using Tensors = std::vector<at::Tensor>;

// The cost of a layer for one microbatch.
struct LayerCost {
  // In seconds.
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  // Bytes that autograd saves of the layer's input and intermediate results.
  std::int64_t activation_bytes = 0;
  // Bytes of it, and of gradients, that stay between the two halves of
  // backward.
  std::int64_t bytes_between_halves = 0;
  std::int64_t parameter_bytes = 0;

  double seconds() const { return forward + backward_input + backward_weight; }
};

// Runs layers one after the other in this process, starting from the example
// `inputs` of the first, and returns their costs: the best times of `rounds`,
// after one warm-up round. Inputs require gradients as they would in the whole
// model. A layer that passes no gradient to its inputs counts all of its
// backward as backward of weights.
//
// Gradients of parameters are restored. Other side effects remain: random
// numbers are drawn, running statistics change, hooks of parameters run, and
// ops that communicate do so. So measure before wrapping the layers.
std::vector<LayerCost> measure_layers(
    const std::vector<std::function<Tensors(const Tensors&)>>& layers,
    const Tensors& inputs,
    int rounds = 5);

} // namespace argosy::pipeline
