#pragma once

#include <memory>

#include "argosy/semi_auto/stages.h"

namespace torch::optim {
class Optimizer;
}

namespace argosy {

// Runs an optimizer on this rank's shards of DTensor parameters.
//
//   torch::optim::AdamW adam(model->parameters());
//   auto optimizer = shard_optimizer(adam, ShardingStage2());
//   loss.backward(); optimizer.step(); optimizer.zero_grad();
//
// The stage decides how optimizer states and gradients are sharded. step()
// reshards gradients accordingly, steps, and restores the placements of the
// parameters. Optimizers with an elementwise update (SGD, Adam, AdamW, Adagrad,
// RMSprop, and those of argosy::optim except Lamb and Lars) run on the plain
// local tensors, so fused kernels apply; others run on DTensors.
//
// The optimizer keeps its options. It must not have stepped before, and must
// outlive this object. All ranks of the mesh call the same methods in the same
// order.
class ShardOptimizer {
 public:
  // Throws InvalidArgument when a parameter is not a DTensor, when parameters
  // are on several meshes, or when the optimizer has already stepped.
  ShardOptimizer(torch::optim::Optimizer& optimizer, ShardingStage stage);
  ~ShardOptimizer();
  ShardOptimizer(ShardOptimizer&&) noexcept;
  ShardOptimizer& operator=(ShardOptimizer&&) = delete;

  void step();
  // Releases all gradients.
  void zero_grad();

  // The two halves of step() around optimizer().step(), for callers that decide
  // in between whether to step: reshard gradients to the placements of the
  // states, and copy the updated values to the parameters.
  void reshard_gradients();
  void update_parameters();

  torch::optim::Optimizer& optimizer();
  const ProcessMesh& mesh() const;

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
};

inline ShardOptimizer shard_optimizer(
    torch::optim::Optimizer& optimizer, ShardingStage stage = {}) {
  return {optimizer, std::move(stage)};
}

} // namespace argosy
