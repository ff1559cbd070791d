#include "argosy/semi_auto/shard_dataloader.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy {

void check_split(bool says_how) {
  ARGOSY_CHECK(
      says_how,
      "[shard_dataloader] the dataset is split, but shard_dim is not set");
}

BatchInput batch_over(
    ProcessMesh mesh, const std::optional<ProcessMesh::Axis>& axis) {
  Placements placements(static_cast<std::size_t>(mesh.ndim()), Replicate());
  if (axis) {
    placements[static_cast<std::size_t>(mesh.axis_index(*axis))] = Shard(0);
  }
  return {std::move(mesh), placements};
}

BatchPlacer::BatchPlacer(
    std::vector<BatchInput> inputs,
    bool is_split,
    std::vector<std::string> keys)
    : inputs_(std::move(inputs)), is_split_(is_split), keys_(std::move(keys)) {
  ARGOSY_CHECK(
      !inputs_.empty(), "[shard_dataloader] no inputs, expected one or more");
  ARGOSY_CHECK(
      keys_.empty() || inputs_.size() == 1 || keys_.size() == inputs_.size(),
      "[shard_dataloader] {} input_keys for {} inputs",
      keys_.size(),
      inputs_.size());
}

at::Tensor BatchPlacer::place(
    const at::Tensor& tensor, std::size_t index) const {
  const BatchInput& input = inputs_.size() == 1 ? inputs_[0] : inputs_[index];
  return is_split_ ? from_local(tensor, input.mesh, input.placements)
                   : shard_tensor(tensor, input.mesh, input.placements);
}

void BatchPlacer::check_count(std::size_t count) const {
  ARGOSY_CHECK(
      inputs_.size() == 1 || inputs_.size() == count,
      "[shard_dataloader] a batch of {} tensors, expected {}, one for each "
      "input",
      count,
      inputs_.size());
}

std::size_t BatchPlacer::index_of(const std::string& key) const {
  if (inputs_.size() == 1) {
    return 0;
  }
  const auto found = std::ranges::find(keys_, key);
  ARGOSY_CHECK(
      found != keys_.end(),
      "[shard_dataloader] the batch has a tensor {}, and input_keys are [{}]; "
      "expected one for each",
      key,
      join(keys_, ", "));
  return static_cast<std::size_t>(found - keys_.begin());
}

at::Tensor BatchPlacer::operator()(const at::Tensor& tensor) const {
  check_count(1);
  return place(tensor, 0);
}

data::Example BatchPlacer::operator()(const data::Example& example) const {
  check_count(2);
  return {place(example.input, 0), place(example.target, 1)};
}

std::vector<at::Tensor> BatchPlacer::operator()(
    const std::vector<at::Tensor>& tensors) const {
  check_count(tensors.size());
  std::vector<at::Tensor> placed;
  for (const at::Tensor& each : tensors) {
    placed.push_back(place(each, placed.size()));
  }
  return placed;
}

std::map<std::string, at::Tensor> BatchPlacer::operator()(
    const std::map<std::string, at::Tensor>& tensors) const {
  std::map<std::string, at::Tensor> placed;
  for (const auto& [name, tensor] : tensors) {
    placed.emplace(name, place(tensor, index_of(name)));
  }
  return placed;
}

} // namespace argosy
