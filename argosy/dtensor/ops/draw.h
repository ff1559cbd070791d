#pragma once

#include <ATen/core/Tensor.h>

#include "argosy/dtensor/ops/rule.h"
#include "argosy/dtensor/tensor/random_fill.h"

// Random numbers for the parts of tensors. An op draws once, whatever it does
// with the numbers, so that all ranks are at the same place of the stream.
namespace argosy::dtensor {

// Throws InvalidArgument when the call has a generator of its own.
void check_generator(LocalCall& call);

// Fills this rank's part of a tensor of shape `global`.
void draw(
    LocalCall& call,
    const at::Tensor& local,
    at::IntArrayRef global,
    const Placements& placements,
    const Distribution& distribution);

// Numbers for this rank's part of the first output.
at::Tensor drawn(
    LocalCall& call,
    const Distribution& distribution,
    const at::TensorOptions& options);

} // namespace argosy::dtensor
