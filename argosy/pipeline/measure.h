#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace argosy::pipeline {

using Tensors = std::vector<at::Tensor>;

// What a layer costs with one microbatch.
struct LayerCost {
  // Seconds.
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  // What autograd saves of its input and of what it computes.
  std::int64_t activation_bytes = 0;
  // What of it, and of gradients, stays between the halves of backward.
  std::int64_t bytes_between_halves = 0;
  std::int64_t parameter_bytes = 0;

  double seconds() const { return forward + backward_input + backward_weight; }
};

// Runs layers one after the other on the example `inputs` of the first, in this
// process: the best times of `rounds`, after one that does not count. Inputs
// get gradients as in the whole model: those of the first that require them,
// and those of the others that come from parameters or such inputs. A layer
// that no input's gradient goes through does all of its backward for weights.
//
// Gradients of parameters are afterwards as before; what else a layer changes
// (random numbers, running statistics) it has changed. Hooks of parameters are
// called, and all that communicates does so: measure before layers are wrapped.
std::vector<LayerCost> measure_layers(
    const std::vector<std::function<Tensors(const Tensors&)>>& layers,
    const Tensors& inputs,
    int rounds = 5);

} // namespace argosy::pipeline
