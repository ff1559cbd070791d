#include "argosy/semi_auto/shard_layer.h"

#include <torch/nn/module.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/dtensor/tensor/mesh_state.h"

namespace argosy {

namespace {

void replicate_rest(
    const at::Tensor& tensor,
    const ProcessMesh& mesh,
    const std::string& name) {
  if (!is_dtensor(tensor)) {
    shard_tensor_(
        tensor,
        mesh,
        Placements(static_cast<std::size_t>(mesh.ndim()), Replicate()));
  }
  ARGOSY_CHECK(
      process_mesh_of(tensor) == mesh,
      "[shard_layer] {} is on {}, expected {}",
      name,
      process_mesh_of(tensor),
      mesh);
}

} // namespace

void semi_auto::check_initial_values(
    const torch::nn::Module& model,
    const ProcessMesh& mesh,
    const char* function) {
  const auto state = dtensor::mesh_state(mesh);
  if (state->checks().times() == 0 || dtensor::TrustedValues::is_active()) {
    return;
  }
  dtensor::NamedTensors plain;
  const auto add = [&](const auto& named) {
    for (const auto& each : named) {
      // A pipeline has released the states of other stages to meta.
      if (each.value().defined() && !is_dtensor(each.value()) &&
          !is_deferred(each.value()) && !each.value().is_meta()) {
        plain.emplace_back(each.key(), each.value());
      }
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
  if (plain.empty()) {
    return;
  }
  check_equal_on(
      *state,
      plain,
      str_format(
          "[{}] the model must have the same initial values on all ranks. "
          "Build it under DeferredInit, broadcast() its parameters first, or "
          "give the ranks the same seed (thread ranks share "
          "torch::manual_seed()):",
          function));
}

void shard_layer(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const ShardFn& shard_fn) {
  semi_auto::check_initial_values(layer, mesh, "shard_layer");
  const dtensor::TrustedValues compared;
  if (shard_fn != nullptr) {
    shard_fn("", layer, mesh);
    for (const auto& each : layer.named_modules("", false)) {
      shard_fn(each.key(), *each.value(), mesh);
    }
  }
  for (const auto& each : layer.named_parameters()) {
    replicate_rest(each.value(), mesh, each.key());
  }
  for (const auto& each : layer.named_buffers()) {
    replicate_rest(each.value(), mesh, each.key());
  }
}

void shard_layer(torch::nn::Module& layer, const ShardFn& shard_fn) {
  shard_layer(layer, require_mesh("shard_layer"), shard_fn);
}

} // namespace argosy
