#pragma once

#include <ATen/core/Tensor.h>

#include "argosy/dtensor/layout/reshard_plan.h"

namespace argosy {
class RankMesh;
}

namespace argosy::dtensor {

// Carries a plan out on this rank's part. All ranks of the meshes must call it
// with the same plan, in the same order as all else they do there; blocks. The
// result may share the memory of `local`. On ranks outside of a mesh the parts
// have no elements.
at::Tensor run_reshard(
    const ReshardPlan& plan,
    const Shape& global,
    const at::Tensor& local,
    RankMesh& from,
    RankMesh& to);

// The block of a tensor, as a view.
at::Tensor block(const at::Tensor& tensor, const Box& box);

} // namespace argosy::dtensor
