#include "argosy/semi_auto/shard_layer.h"

#include <torch/nn/module.h>

#include "argosy/common/error.h"

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

void shard_layer(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const ShardFn& shard_fn) {
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
