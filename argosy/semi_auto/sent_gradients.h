#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "argosy/dtensor/layout/placement.h"
#include "argosy/mesh/process_mesh.h"

namespace argosy {

// The type in which summands of DTensor gradients are sent when they are added
// up over some axes of the mesh.
struct SentGradients {
  // None: the type of the gradient. Only gradients of a longer type are cast.
  std::optional<c10::ScalarType> type;
  std::vector<int> axes; // of the mesh
};

namespace semi_auto {

// reshard() of a gradient, whose sums over the axes are sent in the given type.
// They are rounded before and after the sum; sums over other axes come first,
// in the gradient's own type. Must not be recorded by autograd.
at::Tensor reduced(
    const at::Tensor& gradient,
    const Placements& placements,
    const SentGradients& sent);

} // namespace semi_auto
} // namespace argosy
