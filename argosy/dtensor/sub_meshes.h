#pragma once

#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"

namespace at {
class Tensor;
}

// Between a mesh and the sub-meshes `mesh.at(axis, i)` along one of its axes:
// experts that each have ranks of their own, and what they share. Nothing is
// sent forward. Differentiable. All ranks of the mesh must call the same
// functions in the same order.
namespace argosy {

// The DTensor on `mesh` whose part on a rank is that of the rank's sub-mesh.
// Tensor i is a DTensor on sub-mesh i, placed as `placements` say without that
// axis. What the axis does with the result:
//   Shard      the tensors follow each other in that dim
//   Partial    their reduction; sums only
//   Replicate  they must be equal; each gets an equal share of the gradient
// Throws InvalidArgument for tensors that are elsewhere, and when an axis
// before this one cuts the same dim.
at::Tensor moe_global_mesh_tensor(
    const std::vector<at::Tensor>& local_tensors,
    const ProcessMesh& mesh,
    const Placements& placements,
    const ProcessMesh::Axis& local_mesh_dim = -1);

// The same on the current mesh (set_mesh()).
at::Tensor moe_global_mesh_tensor(
    const std::vector<at::Tensor>& local_tensors,
    const Placements& placements,
    const ProcessMesh::Axis& local_mesh_dim = -1);

// The reverse: a DTensor for each sub-mesh, of which a rank holds that of its
// own. `dtensor` is brought to `placements` first. Of an axis that replicates,
// every sub-mesh gets all, and the gradients are added. Throws InvalidArgument
// when the axis is to be Partial, or one before it cuts the same dim.
std::vector<at::Tensor> moe_sub_mesh_tensors(
    const at::Tensor& dtensor,
    const ProcessMesh& mesh,
    const ProcessMesh::Axis& local_mesh_dim,
    const Placements& placements);

// The same of the mesh that it is on.
std::vector<at::Tensor> moe_sub_mesh_tensors(
    const at::Tensor& dtensor,
    const ProcessMesh::Axis& local_mesh_dim,
    const Placements& placements);

} // namespace argosy
