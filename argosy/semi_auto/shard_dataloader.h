#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/data/collate.h"
#include "argosy/dtensor/dtensor.h"

namespace argosy {

// Turns the batches of a loader into DTensors.
class BatchPlacer {
 public:
  // Shards dim 0 over `axis`; without an axis, batches are replicated. If
  // `is_split`, the tensors of each rank are its shard, all of equal shape;
  // otherwise all ranks must pass the same tensors.
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

// A loader whose batches (tensors, Examples, or vectors and maps of tensors)
// are DTensors.
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

// Shards the batches of `loader` over one axis of the mesh. Every rank loads
// the whole batches: give the sampler num_replicas = 1. If each rank loads only
// its shard (`is_dataset_splitted`), give the sampler num_replicas = size of
// that axis, and as rank the coordinate on it:
//
//   const auto dp = mesh.get_rank_by_dim_and_process_id("dp", get_rank());
//
// `loader` must outlive the result. All ranks of the mesh read it alike.
template <typename Loader>
ShardDataloader<Loader> shard_dataloader(
    Loader& loader,
    const ProcessMesh& mesh,
    std::optional<ProcessMesh::Axis> shard_dim = {},
    bool is_dataset_splitted = false) {
  return {loader, {mesh, std::move(shard_dim), is_dataset_splitted}};
}

} // namespace argosy
