#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/comm/ops.h"

namespace argosy::pipeline {

// The first stage needs inputs, the one with the last part labels; others
// ignore them.
struct Microbatch {
  Tensors inputs;
  Tensors labels;
};

// A batch cut along dim 0 of all its tensors into equal microbatches. Tensors
// that a stage does not have, it leaves out. Throws InvalidArgument, with the
// arithmetic, when they do not divide.
std::vector<Microbatch> split_batch(
    const Tensors& inputs, const Tensors& labels, int microbatches);

} // namespace argosy::pipeline
