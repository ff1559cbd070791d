#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "argosy/recomputation/options.h"

namespace argosy::recomputation {

// A kept input of a recomputed function.
class KeptInput {
 public:
  virtual ~KeptInput() = default;

  // Returns the tensor, with its values and strides, as a leaf. Collective if
  // the ranks of a group keep a slice each.
  virtual at::Tensor get() const = 0;
};

// Keeps a tensor according to the options. Undefined tensors, parameters and
// other leaves that require grad are kept as they are, because they stay in
// memory anyway.
std::unique_ptr<KeptInput> keep_input(
    const at::Tensor& tensor, const RecomputeOptions& options);

} // namespace argosy::recomputation
