#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/optim/fused.h"
#include "argosy/sharding/sharded_core.h"

namespace argosy::optim {
class GradScaler;
}

namespace argosy::sharding {

// Wraps an optimizer so that each rank keeps and updates only its shard of the
// state. Replaces the parameters in the groups of the wrapped optimizer, which
// must outlive this, by this rank's pieces of them. Works with every optimizer
// that updates elements independently, and with LAMB and LARS of argosy::optim,
// which get the norms of whole parameters.
class ShardedOptimizer {
 public:
  // Shards the state that a FusedOptimizer already has. Throws InvalidArgument
  // if another optimizer already has state, and if the optimizer has parameters
  // that the model does not have.
  ShardedOptimizer(
      torch::optim::Optimizer& optimizer, std::shared_ptr<ShardedCore> core);

  // Collective: updates this rank's pieces, then gathers the parameters that
  // are whole between steps. Stepping the wrapped optimizer directly also
  // works; the next forward gathers then.
  void step();
  // Returns false if the scaler skipped the step.
  bool step(optim::GradScaler& scaler);
  void zero_grad() { core_->zero_grad(); }

  // Collective: clips by the norm of the gradients of all parameters, and
  // returns that norm before clipping.
  double clip_grad_norm_(double max_norm);
  void clip_grad_value_(double clip_value);

  // Collective: the state of whole parameters by "<parameter>.<kind>", on every
  // rank, in the form that the optimizer without sharding has. Throws
  // InvalidArgument unless the wrapped optimizer is a FusedOptimizer.
  optim::StateDict state_dict();
  void load_state_dict(const optim::StateDict& states);

  torch::optim::Optimizer& optimizer() { return optimizer_; }
  const std::shared_ptr<ShardedCore>& core() const { return core_; }

 private:
  optim::FusedOptimizer& fused(const char* what);
  std::vector<std::string> names() const;

  torch::optim::Optimizer& optimizer_;
  std::shared_ptr<ShardedCore> core_;
};

} // namespace argosy::sharding
