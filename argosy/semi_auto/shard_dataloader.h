#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/data/collate.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/mesh/rank_mesh.h"

namespace argosy {

// Where one tensor of a batch is: on a mesh, cut in any dims.
struct BatchInput {
  ProcessMesh mesh;
  Placements placements;
};

// Turns the batches of a loader into DTensors.
class BatchPlacer {
 public:
  // `inputs`: one for all tensors of a batch, or one for each: in the order of
  // an Example or a vector, or as `keys` name those of a map. If `is_split`,
  // the tensors of each rank are its shard, all of equal shape; otherwise all
  // ranks must pass the same tensors. Throws InvalidArgument when there is no
  // input, or not one for each key.
  BatchPlacer(
      std::vector<BatchInput> inputs,
      bool is_split,
      std::vector<std::string> keys = {});

  // Throw InvalidArgument when a batch has another number of tensors, or
  // other keys, than there are inputs.
  at::Tensor operator()(const at::Tensor& tensor) const;
  data::Example operator()(const data::Example& example) const;
  std::vector<at::Tensor> operator()(
      const std::vector<at::Tensor>& tensors) const;
  std::map<std::string, at::Tensor> operator()(
      const std::map<std::string, at::Tensor>& tensors) const;

 private:
  at::Tensor place(const at::Tensor& tensor, std::size_t index) const;
  void check_count(std::size_t count) const;
  std::size_t index_of(const std::string& key) const;

  const std::vector<BatchInput> inputs_;
  const bool is_split_;
  const std::vector<std::string> keys_;
};

// Throws InvalidArgument unless a split dataset says how.
void check_split(bool says_how);

// Dim 0 cut over one axis of a mesh; without an axis, replicated.
BatchInput batch_over(
    ProcessMesh mesh, const std::optional<ProcessMesh::Axis>& axis);

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
// `loader` must outlive the result. All ranks of the mesh read it alike. Throws
// InvalidArgument when the dataset is split and no axis is given.
template <typename Loader>
ShardDataloader<Loader> shard_dataloader(
    Loader& loader,
    const ProcessMesh& mesh,
    const std::optional<ProcessMesh::Axis>& shard_dim = {},
    bool is_dataset_splitted = false) {
  check_split(shard_dim.has_value() || !is_dataset_splitted);
  return {loader, {{batch_over(mesh, shard_dim)}, is_dataset_splitted}};
}
// The same on the current mesh (set_mesh()).
template <typename Loader>
ShardDataloader<Loader> shard_dataloader(Loader& loader) {
  return shard_dataloader(loader, require_mesh("shard_dataloader"));
}

struct ShardDataloaderOptions {
  // Names of the tensors of a batch that is a map, in the order of the inputs.
  std::vector<std::string> input_keys = {};
  // Each rank's loader gives its shards, of equal shapes; otherwise all ranks'
  // loaders give the same whole tensors.
  bool is_dataset_splitted = false;
};

// Places each tensor of a batch for itself: on a mesh of its own (inputs on the
// first stage of a pipeline, labels on the last), cut in any dims (a sequence
// over "sep"):
//
//   shard_dataloader(loader, {{first, {Shard(0), Shard(1)}}, {last,
//   {Shard(0)}}});
//
// One input counts for all tensors. All ranks of all meshes read it alike.
template <typename Loader>
ShardDataloader<Loader> shard_dataloader(
    Loader& loader,
    std::vector<BatchInput> inputs,
    ShardDataloaderOptions options = {}) {
  return {
      loader,
      {std::move(inputs),
       options.is_dataset_splitted,
       std::move(options.input_keys)}};
}

} // namespace argosy
