#include "argosy/dtensor/sub_meshes.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <memory>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/torch_hooks/graph_node.h"

namespace argosy {

using dtensor::make_dtensor;
using dtensor::MeshState;
using dtensor::Shape;

namespace {

using Tensors = std::vector<at::Tensor>;

// A mesh, and what it is cut into along one axis.
struct SubMeshes {
  std::shared_ptr<MeshState> whole;
  std::size_t axis;
  std::vector<std::shared_ptr<MeshState>> parts;

  SubMeshes(const ProcessMesh& mesh, const ProcessMesh::Axis& along)
      : whole(dtensor::mesh_state(mesh)),
        axis(static_cast<std::size_t>(mesh.axis_index(along))) {
    const int index = mesh.axis_index(along);
    for (std::int64_t i = 0; i < mesh.shape()[axis]; ++i) {
      parts.push_back(dtensor::mesh_state(mesh.at(index, i)));
    }
  }

  std::int64_t size() const { return static_cast<std::int64_t>(parts.size()); }
};

// On a sub-mesh. That of a mesh of one axis is a rank, which has an axis too.
Placements without_axis(const Placements& placements, std::size_t without) {
  std::vector<Placement> rest;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (axis != without) {
      rest.push_back(placements[axis]);
    }
  }
  return rest.empty() ? Placements{Replicate()} : Placements(rest);
}

// Of tensor `i` when the whole is `shape`.
Shape shape_of_part(
    Shape shape, Placement along, std::int64_t num_parts, std::size_t i) {
  dtensor::Box box = dtensor::whole(shape);
  if (along.is_shard()) {
    dtensor::cut(box, along.dim(), num_parts, static_cast<std::int64_t>(i));
  }
  return box.size;
}

Shape shape_of_whole(const Tensors& tensors, Placement along) {
  Shape shape = tensors.front().sizes().vec();
  for (std::size_t i = 1; along.is_shard() && i < tensors.size(); ++i) {
    shape[static_cast<std::size_t>(along.dim())] +=
        tensors[i].size(along.dim());
  }
  return shape;
}

at::Tensor own_part(const SubMeshes& meshes, const Tensors& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (meshes.parts[i]->is_member()) {
      return dtensor::require_parts(tensors[i], "moe_global_mesh_tensor")
          .local.detach();
    }
  }
  return at::empty({0}, tensors.front().options());
}

// Each is the backward of the other.
Tensors split(const SubMeshes& meshes, const at::Tensor& dtensor);
at::Tensor join(
    const SubMeshes& meshes,
    const Tensors& tensors,
    const Placements& placements);

Tensors split(const SubMeshes& meshes, const at::Tensor& dtensor) {
  const dtensor::Parts& of =
      dtensor::require_parts(dtensor, "moe_sub_mesh_tensors");
  const Placements placements = of.placements;
  const Placements rest = without_axis(placements, meshes.axis);
  const auto forward = [&](const Tensors&) {
    Tensors result;
    for (std::size_t i = 0; i < meshes.parts.size(); ++i) {
      const auto& part = meshes.parts[i];
      result.push_back(make_dtensor(
          {.local = part->is_member() ? of.local.detach()
                                      : at::empty({0}, of.local.options()),
           .mesh = part,
           .placements = rest},
          shape_of_part(
              dtensor.sizes().vec(),
              placements[meshes.axis],
              meshes.size(),
              i)));
    }
    return result;
  };
  return torch_hooks::apply(
      Tensors{dtensor}, forward, [meshes, placements](const Tensors& grads) {
        Placements joined = gradient_placements(placements);
        if (joined[meshes.axis].is_replicated()) {
          joined[meshes.axis] = Partial();
        }
        return Tensors{join(meshes, grads, joined)};
      });
}

at::Tensor join(
    const SubMeshes& meshes,
    const Tensors& tensors,
    const Placements& placements) {
  const Placements rest = without_axis(placements, meshes.axis);
  Tensors placed;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    // Of other sub-meshes, only shapes are known here.
    placed.push_back(
        meshes.parts[i]->is_member()
            ? shard_tensor(tensors[i], meshes.parts[i]->mesh(), rest)
            : tensors[i]);
  }
  const auto forward = [&](const Tensors& in) {
    return Tensors{make_dtensor(
        {.local = own_part(meshes, in),
         .mesh = meshes.whole,
         .placements = placements},
        shape_of_whole(in, placements[meshes.axis]))};
  };
  return torch_hooks::apply(
      placed, forward, [meshes, placements](const Tensors& in) {
        at::Tensor grad = shard_tensor(
            in[0], meshes.whole->mesh(), gradient_placements(placements));
        if (placements[meshes.axis].is_replicated()) {
          grad = grad / meshes.size();
        }
        return split(meshes, grad);
      })[0];
}

// So that what each sub-mesh has is in one piece.
void check_is_outermost(const Placements& placements, std::size_t along) {
  for (std::size_t axis = 0; axis < along; ++axis) {
    ARGOSY_CHECK(
        !placements[along].is_shard() || placements[axis] != placements[along],
        "[dtensor.sub_meshes] {}: axis {} cuts the dim that sub-meshes are cut "
        "in by axis {}, expected that axis to come first",
        placements,
        axis,
        along);
  }
}

void check_tensors(
    const Tensors& tensors,
    const SubMeshes& meshes,
    const Placements& placements) {
  const Placement along = placements[meshes.axis];
  const Shape whole = shape_of_whole(tensors, along);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DistAttr expected(
        meshes.parts[i]->mesh(), without_axis(placements, meshes.axis));
    ARGOSY_CHECK(
        dist_attr(tensors[i]) == expected,
        "[dtensor.moe_global_mesh_tensor] tensor {} is {}, expected {}",
        i,
        dist_attr(tensors[i]),
        expected);
    const Shape shape = shape_of_part(whole, along, meshes.size(), i);
    ARGOSY_CHECK(
        tensors[i].sizes() == at::IntArrayRef(shape),
        "[dtensor.moe_global_mesh_tensor] tensor {} has shape {}, expected {}",
        i,
        tensors[i].sizes(),
        at::IntArrayRef(shape));
  }
}

} // namespace

at::Tensor moe_global_mesh_tensor(
    const Tensors& local_tensors,
    const ProcessMesh& mesh,
    const Placements& placements,
    const ProcessMesh::Axis& local_mesh_dim) {
  const SubMeshes meshes(mesh, local_mesh_dim);
  ARGOSY_CHECK(
      local_tensors.size() == meshes.parts.size(),
      "[dtensor.moe_global_mesh_tensor] {} tensors, expected one for each of "
      "{} sub-meshes",
      local_tensors.size(),
      meshes.size());
  const auto ndim = static_cast<int>(local_tensors.front().dim());
  const Placements placed = normalized(placements, ndim, mesh.ndim());
  const Placement along = placed[meshes.axis];
  ARGOSY_CHECK(
      !along.is_partial() || along == Partial(),
      "[dtensor.moe_global_mesh_tensor] {} of tensors of sub-meshes, expected "
      "a sum",
      along);
  check_is_outermost(placed, meshes.axis);
  check_tensors(local_tensors, meshes, placed);
  return join(meshes, local_tensors, placed);
}

Tensors moe_sub_mesh_tensors(
    const at::Tensor& dtensor,
    const ProcessMesh& mesh,
    const ProcessMesh::Axis& local_mesh_dim,
    const Placements& placements) {
  const SubMeshes meshes(mesh, local_mesh_dim);
  const at::Tensor placed = reshard(dtensor, mesh, placements);
  const Placements found = placements_of(placed);
  ARGOSY_CHECK(
      !found[meshes.axis].is_partial(),
      "[dtensor.moe_sub_mesh_tensors] {}: parts of a sum mean nothing to a "
      "sub-mesh, expected Shard or Replicate on axis {}",
      found,
      meshes.axis);
  check_is_outermost(found, meshes.axis);
  return split(meshes, placed);
}

at::Tensor moe_global_mesh_tensor(
    const Tensors& local_tensors,
    const Placements& placements,
    const ProcessMesh::Axis& local_mesh_dim) {
  return moe_global_mesh_tensor(
      local_tensors,
      require_mesh("moe_global_mesh_tensor"),
      placements,
      local_mesh_dim);
}

Tensors moe_sub_mesh_tensors(
    const at::Tensor& dtensor,
    const ProcessMesh::Axis& local_mesh_dim,
    const Placements& placements) {
  return moe_sub_mesh_tensors(
      dtensor, process_mesh_of(dtensor), local_mesh_dim, placements);
}

} // namespace argosy
