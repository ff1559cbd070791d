#include "argosy/dtensor/tensor/convert.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/trace/recorded_call.h"

namespace argosy {

using dtensor::checked;
using dtensor::make_dtensor;
using dtensor::mesh_state;
using dtensor::MeshState;
using dtensor::Parts;
using dtensor::replicated_on;
using dtensor::require_parts;
using dtensor::Shape;
using dtensor::wrap_local;
using trace::recorded_apply;

namespace {

using MeshPtr = std::shared_ptr<MeshState>;

bool is_recorded(const at::Tensor& tensor) {
  return tensor.requires_grad() && at::GradMode::is_enabled();
}

// This rank's part of a tensor that all ranks have, with memory of its own.
at::Tensor cut_out(
    const at::Tensor& data, const MeshPtr& mesh, const Placements& placements) {
  dtensor::check_is_strided(data, "shard_tensor");
  const at::Tensor plain = dtensor::without_lazy_bits(data.detach());
  if (!mesh->is_member()) {
    return at::empty({0}, plain.options());
  }
  const at::Tensor part = mesh->reshard(
      plain, plain.sizes(), replicated_on(mesh->mesh()), placements);
  return part.is_alias_of(plain) ? part.clone(at::MemoryFormat::Contiguous)
                                 : part;
}

at::Tensor shard_plain(
    const at::Tensor& data, const MeshPtr& mesh, const Placements& placements) {
  return make_dtensor(
      {.local = cut_out(data, mesh, placements),
       .mesh = mesh,
       .placements = placements},
      data.sizes());
}

// A gradient may come as a plain tensor: zeros, or a user's own.
at::Tensor as_dtensor(const at::Tensor& tensor, const MeshPtr& mesh) {
  return is_dtensor(tensor)
      ? tensor
      : dtensor::place(tensor, mesh->mesh(), replicated_on(mesh->mesh()));
}

at::Tensor move(
    const at::Tensor& tensor, const MeshPtr& to, const Placements& placements) {
  const Parts& parts = require_parts(tensor, "reshard");
  const at::Tensor local = parts.mesh->reshard(
      parts.local, tensor.sizes(), parts.placements, *to, placements);
  return make_dtensor(
      {.local = local.is_alias_of(parts.local) ? local.clone() : local,
       .mesh = to,
       .placements = placements},
      tensor.sizes());
}

} // namespace

namespace dtensor {

Placements replicated_on(const ProcessMesh& mesh) {
  return {static_cast<std::size_t>(mesh.ndim()), Replicate()};
}

Placements checked(
    const Placements& placements,
    std::size_t ndim,
    const std::shared_ptr<MeshState>& mesh) {
  return normalized(placements, static_cast<int>(ndim), mesh->mesh().ndim());
}

at::Tensor place(
    const at::Tensor& data,
    const ProcessMesh& mesh,
    const Placements& placements) {
  if (is_dtensor(data)) {
    return reshard(data, mesh, placements);
  }
  if (trace::is_recording()) {
    // No op makes what follows, so a recording would take it for a constant.
    const auto call = [mesh, placements](const std::vector<at::Tensor>& in) {
      return std::vector{place(in[0], mesh, placements)};
    };
    return trace::recorded_call({data}, call)[0];
  }
  const MeshPtr state = mesh_state(mesh);
  const Placements placed =
      checked(placements, static_cast<std::size_t>(data.dim()), state);
  if (data.is_leaf() || !is_recorded(data)) {
    return shard_plain(data, state, placed)
        .requires_grad_(data.requires_grad());
  }
  return recorded_apply(
      data,
      [=](const at::Tensor& in) { return shard_plain(in, state, placed); },
      [](const at::Tensor& grad) { return full_tensor(grad); });
}

at::Tensor wrap_local(
    const at::Tensor& local,
    const std::shared_ptr<MeshState>& mesh,
    const Placements& placements,
    const Shape& global) {
  return recorded_apply(
      local,
      [=](const at::Tensor& in) {
        return make_dtensor(
            {.local = without_lazy_bits(in.detach()),
             .mesh = mesh,
             .placements = placements},
            global);
      },
      [mesh, placements](const at::Tensor& grad) {
        return to_local(reshard(
            as_dtensor(grad, mesh),
            mesh->mesh(),
            gradient_placements(placements)));
      });
}

} // namespace dtensor

at::Tensor to_local(const at::Tensor& dtensor) {
  const Parts& parts = require_parts(dtensor, "to_local");
  const Shape global = dtensor.sizes().vec();
  const auto mesh = parts.mesh;
  const Placements placements = gradient_placements(parts.placements);
  return recorded_apply(
      dtensor,
      // An alias: one result may be asked for, and detached, many times.
      [](const at::Tensor& in) {
        return require_parts(in, "to_local").local.detach();
      },
      [mesh, placements, global](const at::Tensor& grad) {
        return wrap_local(grad, mesh, placements, global);
      });
}

at::Tensor reshard(
    const at::Tensor& dtensor,
    const ProcessMesh& mesh,
    const Placements& placements) {
  const Parts& parts = require_parts(dtensor, "reshard");
  const MeshPtr from = parts.mesh;
  const MeshPtr to = from->mesh() == mesh ? from : mesh_state(mesh);
  const Placements placed =
      checked(placements, static_cast<std::size_t>(dtensor.dim()), to);
  if (from == to && placed == parts.placements) {
    return dtensor;
  }
  const Placements back = gradient_placements(parts.placements);
  return recorded_apply(
      dtensor,
      [=](const at::Tensor& in) { return move(in, to, placed); },
      [from, to, back](const at::Tensor& grad) {
        return reshard(as_dtensor(grad, to), from->mesh(), back);
      });
}

at::Tensor full_tensor(const at::Tensor& dtensor) {
  if (!is_dtensor(dtensor)) {
    return dtensor;
  }
  const ProcessMesh mesh = process_mesh_of(dtensor);
  return to_local(reshard(dtensor, mesh, replicated_on(mesh)));
}

at::Tensor unshard(const at::Tensor& dtensor) {
  return full_tensor(dtensor);
}

bool is_dtensor(const at::Tensor& tensor) {
  return dtensor::parts_of(tensor) != nullptr;
}

DistAttr dist_attr(const at::Tensor& dtensor) {
  const Parts& parts = require_parts(dtensor, "dist_attr");
  return {parts.mesh->mesh(), parts.placements};
}

Placements placements_of(const at::Tensor& dtensor) {
  return require_parts(dtensor, "placements_of").placements;
}

ProcessMesh process_mesh_of(const at::Tensor& dtensor) {
  return require_parts(dtensor, "process_mesh_of").mesh->mesh();
}

} // namespace argosy
