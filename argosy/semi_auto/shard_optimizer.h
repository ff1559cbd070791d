#pragma once

#include <memory>

#include "argosy/semi_auto/stages.h"

namespace torch::optim {
class Optimizer;
}

namespace argosy {

// Runs an optimizer on the parts of DTensor parameters that this rank has.
//
//   torch::optim::AdamW adam(model->parameters());
//   auto optimizer = shard_optimizer(adam, ShardingStage2());
//   loss.backward(); optimizer.step(); optimizer.zero_grad();
//
// States and gradients lie where the stage says; step() brings gradients
// there, and parameters back to where they are. Optimizers whose update of an
// element looks at that element alone (SGD, Adam, AdamW, Adagrad, RMSprop, and
// ours but for Lamb and Lars) run on plain tensors, so the fused kernels of
// argosy::optim apply. Others run on DTensors.
//
// Options of the groups are the optimizer's own. It must have made no step
// before, and outlive this. All ranks of the mesh must call the same functions.
class ShardOptimizer {
 public:
  // Throws InvalidArgument when a parameter is no DTensor, or they are on
  // several meshes.
  ShardOptimizer(torch::optim::Optimizer& optimizer, ShardingStage stage);
  ~ShardOptimizer();
  ShardOptimizer(ShardOptimizer&&) noexcept;
  ShardOptimizer& operator=(ShardOptimizer&&) = delete;

  void step();
  // Forgets all gradients.
  void zero_grad();

  // The parts of step(), for those who decide whether to step: gradients go to
  // where the states are, for the optimizer too, and parameters back.
  void take_gradients();
  void put_back();

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
