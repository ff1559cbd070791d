#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/comm/ops.h"

namespace argosy::pipeline {

// Only the first stage needs inputs; only the stage with the last part needs
// labels. Other stages ignore them.
struct Microbatch {
  Tensors inputs;
  Tensors labels;
};

// Splits a batch along dim 0 of all tensors into equal microbatches. `inputs`
// or `labels` may be empty on stages that do not need them. Throws
// InvalidArgument when the size is not divisible.
std::vector<Microbatch> split_batch(
    const Tensors& inputs, const Tensors& labels, int microbatches);

} // namespace argosy::pipeline
