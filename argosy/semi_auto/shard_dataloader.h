#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/data/collate.h"
#include "argosy/dtensor/dtensor.h"

namespace argosy {

// How the batches of a loader become DTensors.
class BatchPlacer {
 public:
  // Dim 0 is cut over the axis; without one, all ranks have all. With
  // `is_split`, what a rank gives is its own part already, and all parts have
  // the same shape; else all ranks must give the same.
  BatchPlacer(
      ProcessMesh mesh, std::optional<ProcessMesh::Axis> axis, bool is_split);

  at::Tensor operator()(const at::Tensor& tensor) const;
  data::Example operator()(const data::Example& example) const;
  std::vector<at::Tensor> operator()(
      const std::vector<at::Tensor>& tensors) const;
  std::map<std::string, at::Tensor> operator()(
      const std::map<std::string, at::Tensor>& tensors) const;

 private:
  const ProcessMesh mesh_;
  const bool is_split_;
  Placements placements_;
};

// A loader whose batches are DTensors: tensors, Examples, or vectors and maps
// of tensors.
template <typename Loader>
class ShardDataloader {
 public:
  ShardDataloader(Loader& loader, BatchPlacer placer)
      : loader_(loader), placer_(std::move(placer)) {}

  auto next() {
    auto batch = loader_.next();
    using Placed = decltype(placer_(*batch));
    return batch ? std::optional<Placed>(placer_(*batch)) : std::nullopt;
  }

  auto size() const { return loader_.size(); }
  Loader& loader() { return loader_; }

 private:
  Loader& loader_;
  const BatchPlacer placer_;
};

// Cuts the batches of `loader` over one axis of the mesh. Where each rank loads
// its part only (`is_dataset_splitted`), let the sampler's num_replicas be the
// size of that axis, and its rank the place on it:
//
//   const auto dp = mesh.get_rank_by_dim_and_process_id("dp", get_rank());
//
// The loader must outlive it.
template <typename Loader>
ShardDataloader<Loader> shard_dataloader(
    Loader& loader,
    const ProcessMesh& mesh,
    std::optional<ProcessMesh::Axis> shard_dim = {},
    bool is_dataset_splitted = false) {
  return {loader, {mesh, std::move(shard_dim), is_dataset_splitted}};
}

} // namespace argosy
