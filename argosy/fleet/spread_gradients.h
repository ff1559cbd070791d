#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/data_parallel/bucket_hook.h"
#include "argosy/data_parallel/hook_memory.h"
#include "argosy/dtensor/layout/placement.h"
#include "argosy/mesh/hybrid_mesh.h"

namespace torch::nn {
class Module;
}

// Gradients of DTensors that are compressed. Not installed.
namespace argosy::fleet {

// The axes of a mesh of the strategy whose ranks have different data.
std::vector<int> data_axes(const ProcessMesh& mesh);

// Adds up gradients over the ranks with different data by a hook of
// DataParallel, which then sees what it would see there: this rank's part of
// each parameter, and the gradient of the mean loss of this rank's data.
class SpreadGradients {
 public:
  SpreadGradients(
      const torch::nn::Module& module,
      std::shared_ptr<data_parallel::BucketHook> hook,
      HybridMeshPtr hybrid);

  // Gradients of the parameters that `is_wanted` chooses have the placements of
  // their parameters afterwards. All ranks of the mesh call it alike; blocks.
  void reduce(const std::function<bool(const at::Tensor&)>& is_wanted);

  training::ModelCore::Memory memory() const;
  void set_memory(const training::ModelCore::Memory& memory);

 private:
  struct Sum; // a gradient on its way

  Sum begin(std::size_t parameter) const;
  std::vector<std::vector<Sum>> buckets(
      const std::function<bool(const at::Tensor&)>& is_wanted) const;
  data_parallel::MemoryOwner owner() const;

  const std::shared_ptr<data_parallel::BucketHook> hook_;
  const HybridMeshPtr hybrid_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
};

} // namespace argosy::fleet
