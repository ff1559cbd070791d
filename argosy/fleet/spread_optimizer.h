#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "argosy/semi_auto/shard_optimizer.h"

namespace argosy {
class HybridMesh;
}

namespace argosy::fleet {

struct DistributedStrategy;

// What DistributedOptimizer does when the parameters are DTensors: the
// optimizer then steps this rank's shards of them (ShardOptimizer), sharded
// over the axis `sharding` as sharding_configs.stage says. All ranks call its
// methods alike.
class SpreadOptimizer {
 public:
  // Null unless all that the optimizer holds are DTensors on the mesh of the
  // strategy. Throws InvalidArgument as ShardOptimizer does.
  static std::unique_ptr<SpreadOptimizer> make(
      torch::optim::Optimizer& optimizer,
      const DistributedStrategy& strategy,
      const HybridMesh& hybrid);

  // Before a step: reduces gradients to what the optimizer's shards need.
  void reduce_gradients() { shards_.reshard_gradients(); }
  // Scales gradients so that the norm of all, over the mesh, is `limit` at
  // most. Parameters with ParameterMarks::need_clip off do not count.
  void clip_norm(double limit);
  // After a step.
  void update_parameters() { shards_.update_parameters(); }
  void zero_grad() { shards_.zero_grad(); }

  // This rank's parts of the parameters, which share their memory.
  std::vector<at::Tensor> locals() const;

 private:
  SpreadOptimizer(
      torch::optim::Optimizer& optimizer,
      std::vector<at::Tensor> parameters,
      ShardingStage stage,
      const OffloadedShards& offloaded);

  const std::vector<at::Tensor> parameters_; // DTensors
  ShardOptimizer shards_;
};

} // namespace argosy::fleet
