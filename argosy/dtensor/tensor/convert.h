#pragma once

#include <memory>

#include "argosy/dtensor/layout/dist_attr.h"
#include "argosy/dtensor/layout/layout.h"

namespace at {
class Tensor;
}

// DTensors in other places, and as plain tensors. All ranks of the mesh must
// call these alike; those that reshard block.
namespace argosy {

// This rank's part, without communication. Differentiable; of a Replicate the
// gradient must be the same on all ranks.
at::Tensor to_local(const at::Tensor& dtensor);

// The same tensor in another place, within the mesh or on another one; all
// ranks of both must call it. Differentiable. May share memory with what it is
// given only when that is there already.
at::Tensor reshard(
    const at::Tensor& dtensor,
    const ProcessMesh& mesh,
    const Placements& placements);

// The same within the mesh that it is on.
at::Tensor reshard(const at::Tensor& dtensor, const Placements& placements);

// The whole as a plain tensor on every rank. Differentiable. A plain tensor is
// returned as it is.
at::Tensor full_tensor(const at::Tensor& dtensor);
at::Tensor unshard(const at::Tensor& dtensor);

bool is_dtensor(const at::Tensor& tensor);

// Where a DTensor is. Throws InvalidArgument for a plain tensor.
DistAttr dist_attr(const at::Tensor& dtensor);
Placements placements_of(const at::Tensor& dtensor);
ProcessMesh process_mesh_of(const at::Tensor& dtensor);

namespace dtensor {

class MeshState;

// shard_tensor() when install_dispatch() has been called.
at::Tensor place(
    const at::Tensor& data,
    const ProcessMesh& mesh,
    const Placements& placements);

// A DTensor of the global shape whose part is `local`. Differentiable.
at::Tensor wrap_local(
    const at::Tensor& local,
    const std::shared_ptr<MeshState>& mesh,
    const Placements& placements,
    const Shape& global);

Placements replicated_on(const ProcessMesh& mesh);

// Throws InvalidArgument for placements that a tensor of `ndim` dims cannot
// have there.
Placements checked(
    const Placements& placements,
    std::size_t ndim,
    const std::shared_ptr<MeshState>& mesh);

} // namespace dtensor
} // namespace argosy
