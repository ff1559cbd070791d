#include "argosy/dtensor/dtensor.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred/tape.h"
#include "argosy/dtensor/dispatch/register.h"
#include "argosy/dtensor/tensor/random_fill.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy {

using dtensor::checked;
using dtensor::make_dtensor;
using dtensor::mesh_state;
using dtensor::MeshState;
using dtensor::replicated_on;
using dtensor::Shape;

namespace {

using MeshPtr = std::shared_ptr<MeshState>;

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

// Each parameter comes here once, so all are compared, not only the first ones
// of their shape.
void check_initial_values(const at::Tensor& tensor, const ProcessMesh& mesh) {
  const MeshPtr state = mesh_state(mesh);
  if (!is_dtensor(tensor) && state->checks().times() > 0 &&
      !dtensor::TrustedValues::is_active()) {
    check_equal_on(
        *state,
        {{"tensor", tensor}},
        "[dtensor.shard_tensor_] takes a tensor that has the same values on "
        "all ranks of the mesh. Make it under DeferredInit, broadcast() it "
        "first, or give the ranks the same seed (thread ranks share "
        "torch::manual_seed()):");
  }
}

// Ranks on an axis that replicates hold copies of one part.
void check_copies(
    const at::Tensor& local, const MeshPtr& mesh, const Placements& placed) {
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < placed.size(); ++axis) {
    if (placed[axis].is_replicated() && mesh->mesh().shape()[axis] > 1) {
      axes.push_back(static_cast<int>(axis));
    }
  }
  if (!axes.empty() && mesh->is_member() &&
      mesh->checks().take(dtensor::kind_of(*mesh, local) + 1)) {
    dtensor::check_equal_over(
        *mesh,
        axes,
        {{"local", local}},
        str_format(
            "[dtensor.from_local] {} on {}: ranks on an axis that replicates "
            "hold the same part. Give their samplers the same rank (that of "
            "the axis with Shard), or broadcast() the part over the axis:",
            placed,
            mesh->mesh()));
  }
}

} // namespace

at::Tensor shard_tensor(
    const at::Tensor& data,
    const ProcessMesh& mesh,
    const Placements& placements) {
  dtensor::install_dispatch();
  return dtensor::place(data, mesh, placements);
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
  check_initial_values(tensor, mesh);
  const dtensor::TrustedValues compared;
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
  dtensor::check_is_strided(local, "from_local");
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
      "[dtensor.from_local] a part of shape {}, expected {} of {} with {}",
      local.sizes(),
      at::IntArrayRef(expected),
      at::IntArrayRef(shape),
      placed);
  check_copies(local, state, placed);
  return dtensor::wrap_local(local, state, placed, shape);
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

at::Tensor shard_tensor(const at::Tensor& data, const Placements& placements) {
  return shard_tensor(data, require_mesh("shard_tensor"), placements);
}

void shard_tensor_(const at::Tensor& tensor, const Placements& placements) {
  shard_tensor_(tensor, require_mesh("shard_tensor_"), placements);
}

at::Tensor dtensor_from_fn(
    const std::function<at::Tensor()>& make, const Placements& placements) {
  return dtensor_from_fn(make, require_mesh("dtensor_from_fn"), placements);
}

at::Tensor from_local(
    const at::Tensor& local,
    const Placements& placements,
    const std::vector<std::int64_t>& global) {
  return from_local(local, require_mesh("from_local"), placements, global);
}

at::Tensor dtensor_rand(
    const std::vector<std::int64_t>& shape, const Placements& placements) {
  return dtensor_rand(shape, require_mesh("dtensor_rand"), placements);
}

at::Tensor dtensor_randn(
    const std::vector<std::int64_t>& shape, const Placements& placements) {
  return dtensor_randn(shape, require_mesh("dtensor_randn"), placements);
}

void dtensor_manual_seed(std::uint64_t seed) {
  dtensor::random_state()->set_seed(seed);
}

void dtensor_check_values(int times) {
  ARGOSY_CHECK(
      times >= 0, "[dtensor.check_values] {} times, expected 0 or more", times);
  dtensor::value_checks()->set_times(times);
}

} // namespace argosy
