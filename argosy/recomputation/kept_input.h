#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "argosy/recomputation/options.h"

namespace argosy::recomputation {

// An input of a function that waits to be run again.
class KeptInput {
 public:
  virtual ~KeptInput() = default;

  // The tensor, with its values and strides, as a leaf. A collective where the
  // members of a group have a part each.
  virtual at::Tensor get() const = 0;
};

// Keeps it as the options say; undefined tensors, parameters and other leaves
// that require grad as they are, as they stay in memory anyway.
std::unique_ptr<KeptInput> keep_input(
    const at::Tensor& tensor, const RecomputeOptions& options);

} // namespace argosy::recomputation
