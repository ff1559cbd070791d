#include "argosy/dtensor/dtensor.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred/tape.h"
#include "argosy/dtensor/dispatch/register.h"
#include "argosy/dtensor/random_fill.h"
#include "argosy/dtensor/reshard_run.h"
#include "argosy/dtensor/tensor.h"
#include "argosy/torch_hooks/graph_node.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy {

using dtensor::check_is_strided;
using dtensor::make_dtensor;
using dtensor::mesh_state;
using dtensor::MeshState;
using dtensor::Parts;
using dtensor::require_parts;
using dtensor::Shape;
using dtensor::without_lazy_bits;

namespace {

using MeshPtr = std::shared_ptr<MeshState>;

Placements replicated_on(const ProcessMesh& mesh) {
  return {static_cast<std::size_t>(mesh.ndim()), Replicate()};
}

Placements checked(
    const Placements& placements, std::size_t ndim, const MeshPtr& mesh) {
  return normalized(placements, static_cast<int>(ndim), mesh->mesh().ndim());
}

bool is_recorded(const at::Tensor& tensor) {
  return tensor.requires_grad() && at::GradMode::is_enabled();
}

// This rank's part of a tensor that all ranks have, with memory of its own.
at::Tensor cut_out(
    const at::Tensor& data, const MeshPtr& mesh, const Placements& placements) {
  check_is_strided(data, "shard_tensor");
  const at::Tensor plain = without_lazy_bits(data.detach());
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
      : shard_tensor(tensor, mesh->mesh(), replicated_on(mesh->mesh()));
}

Shape global_shape(
    const at::Tensor& local,
    const MeshPtr& mesh,
    const Placements& placements) {
  Shape shape = local.sizes().vec();
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard()) {
      shape[static_cast<std::size_t>(placements[axis].dim())] *=
          mesh->mesh().shape()[axis];
    }
  }
  return shape;
}

at::Tensor wrap_local(
    const at::Tensor& local,
    const MeshPtr& mesh,
    const Placements& placements,
    const Shape& global) {
  return torch_hooks::apply(
      local,
      [&](const at::Tensor& in) {
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

at::Tensor random_tensor(
    const Shape& shape,
    const ProcessMesh& mesh,
    const Placements& placements,
    const dtensor::Distribution& distribution) {
  dtensor::install_dispatch();
  const MeshPtr state = mesh_state(mesh);
  const Placements placed = checked(placements, shape.size(), state);
  const auto draw = state->random().draw();
  const auto box = state->local_box(shape, gradient_placements(placed));
  at::Tensor local = at::empty(box.size, at::TensorOptions(at::kFloat));
  if (state->is_member()) {
    fill_random(local, shape, box, draw, distribution);
    local = state->reshard(local, shape, gradient_placements(placed), placed);
  }
  return make_dtensor(
      {.local = local, .mesh = state, .placements = placed}, shape);
}

// Of what was written down about a tensor; the parts of this rank only.
at::Tensor replay(
    const dtensor::DeferredParts& deferred,
    const ProcessMesh& mesh,
    const Placements& placements) {
  const MeshPtr state = mesh_state(mesh);
  const int root = deferred.tape->root(deferred.value);
  // A view of a dim that is cut is a copy, to which writing is in vain: such a
  // tensor (an Embedding with padding_idx) is whole for a moment.
  const bool is_cut = !deferred.tape->has_written_views(root);
  return deferred.tape->replay(
      deferred.value,
      state->random(),
      [&](int value, const trace::TensorMeta& meta) {
        const Shape& shape = meta.sizes;
        const Placements placed = value == root && is_cut
            ? checked(placements, shape.size(), state)
            : replicated_on(mesh);
        return make_dtensor(
            {.local = at::empty(
                 state->local_shape(shape, placed),
                 at::TensorOptions(meta.type)),
             .mesh = state,
             .placements = placed},
            shape);
      });
}

} // namespace

at::Tensor shard_tensor(
    const at::Tensor& data,
    const ProcessMesh& mesh,
    const Placements& placements) {
  if (is_dtensor(data)) {
    return reshard(data, mesh, placements);
  }
  dtensor::install_dispatch();
  const MeshPtr state = mesh_state(mesh);
  const Placements placed =
      checked(placements, static_cast<std::size_t>(data.dim()), state);
  if (data.is_leaf() || !is_recorded(data)) {
    return shard_plain(data, state, placed)
        .requires_grad_(data.requires_grad());
  }
  return torch_hooks::apply(
      data,
      [&](const at::Tensor& in) { return shard_plain(in, state, placed); },
      [](const at::Tensor& grad) { return full_tensor(grad); });
}

void shard_tensor_(
    const at::Tensor& tensor,
    const ProcessMesh& mesh,
    const Placements& placements) {
  ARGOSY_CHECK(
      tensor.is_leaf(),
      "[dtensor.shard_tensor_] a tensor that was computed, expected a leaf");
  const at::NoGradGuard no_grad;
  if (const auto* deferred = dtensor::deferred_of(tensor)) {
    const at::Tensor made = replay(*deferred, mesh, placements);
    torch_hooks::become(tensor, reshard(made, mesh, placements));
    return;
  }
  torch_hooks::become(tensor, shard_tensor(tensor.detach(), mesh, placements));
  if (tensor.grad().defined()) {
    tensor.mutable_grad() =
        shard_tensor(tensor.grad(), mesh, gradient_placements(placements));
  }
}

at::Tensor dtensor_from_fn(
    const std::function<at::Tensor()>& make,
    const ProcessMesh& mesh,
    const Placements& placements) {
  return shard_tensor(make(), mesh, placements);
}

at::Tensor from_local(
    const at::Tensor& local,
    const ProcessMesh& mesh,
    const Placements& placements,
    const std::vector<std::int64_t>& global) {
  ARGOSY_CHECK(
      !is_dtensor(local), "[dtensor.from_local] the part is a DTensor itself");
  check_is_strided(local, "from_local");
  dtensor::install_dispatch();
  const MeshPtr state = mesh_state(mesh);
  const Placements placed = checked(
      placements,
      global.empty() ? static_cast<std::size_t>(local.dim()) : global.size(),
      state);
  const Shape shape =
      global.empty() ? global_shape(local, state, placed) : global;
  const Shape expected = state->local_shape(shape, placed);
  ARGOSY_CHECK(
      !state->is_member() || local.sizes() == at::IntArrayRef(expected),
      "[dtensor.from_local] a part of shape ",
      local.sizes(),
      ", expected ",
      at::IntArrayRef(expected),
      " of ",
      at::IntArrayRef(shape),
      " with ",
      placed);
  return wrap_local(local, state, placed, shape);
}

at::Tensor to_local(const at::Tensor& dtensor) {
  const Parts& parts = require_parts(dtensor, "to_local");
  const Shape global = dtensor.sizes().vec();
  const auto mesh = parts.mesh;
  const Placements placements = gradient_placements(parts.placements);
  return torch_hooks::apply(
      dtensor,
      // An alias: one result may be asked for, and detached, many times.
      [&](const at::Tensor&) { return parts.local.detach(); },
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
  return torch_hooks::apply(
      dtensor,
      [&](const at::Tensor& in) { return move(in, to, placed); },
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

at::Tensor dtensor_rand(
    const std::vector<std::int64_t>& shape,
    const ProcessMesh& mesh,
    const Placements& placements) {
  return random_tensor(shape, mesh, placements, dtensor::uniform(0, 1));
}

at::Tensor dtensor_randn(
    const std::vector<std::int64_t>& shape,
    const ProcessMesh& mesh,
    const Placements& placements) {
  return random_tensor(shape, mesh, placements, dtensor::normal(0, 1));
}

void dtensor_manual_seed(std::uint64_t seed) {
  dtensor::random_state()->set_seed(seed);
}

} // namespace argosy
