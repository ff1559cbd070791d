#include "argosy/semi_auto/shard_dataloader.h"

#include "argosy/common/error.h"

namespace argosy {

BatchPlacer::BatchPlacer(
    ProcessMesh mesh, std::optional<ProcessMesh::Axis> axis, bool is_split)
    : mesh_(std::move(mesh)),
      is_split_(is_split),
      placements_(static_cast<std::size_t>(mesh_.ndim()), Replicate()) {
  ARGOSY_CHECK(
      axis || !is_split,
      "[shard_dataloader] the dataset is split, but shard_dim is not set");
  if (axis) {
    placements_[static_cast<std::size_t>(mesh_.axis_index(*axis))] = Shard(0);
  }
}

at::Tensor BatchPlacer::operator()(const at::Tensor& tensor) const {
  return is_split_ ? from_local(tensor, mesh_, placements_)
                   : shard_tensor(tensor, mesh_, placements_);
}

data::Example BatchPlacer::operator()(const data::Example& example) const {
  return {(*this)(example.input), (*this)(example.target)};
}

std::vector<at::Tensor> BatchPlacer::operator()(
    const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> placed;
  for (const at::Tensor& each : tensors) {
    placed.push_back((*this)(each));
  }
  return placed;
}

std::map<std::string, at::Tensor> BatchPlacer::operator()(
    const std::map<std::string, at::Tensor>& tensors) const {
  std::map<std::string, at::Tensor> placed;
  for (const auto& [name, tensor] : tensors) {
    placed.emplace(name, (*this)(tensor));
  }
  return placed;
}

} // namespace argosy
