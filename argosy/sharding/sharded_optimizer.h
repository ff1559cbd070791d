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

// An optimizer of which each rank has its part of the states. The optimizer
// given gets this rank's parts of the parameters in the place of the
// parameters, each in the group of its parameter, and must outlive this. Any
// whose step treats elements one by one: not LAMB and LARS, which need the norm
// of a whole tensor.
class ShardedOptimizer {
 public:
  // States that a FusedOptimizer has are cut. Throws InvalidArgument when
  // another optimizer has any, and for parameters that are not the model's.
  ShardedOptimizer(
      torch::optim::Optimizer& optimizer, std::shared_ptr<ShardedCore> core);

  // All ranks: steps, and makes whole what is to be whole.
  void step();
  // Unless the scaler leaves it out; returns whether it did not.
  bool step(optim::GradScaler& scaler);
  void zero_grad() { core_->zero_grad(); }

  // All ranks: as torch's, of the gradients of all parameters; returns their
  // norm before.
  double clip_grad_norm_(double max_norm);
  void clip_grad_value_(double clip_value);

  // All ranks: states of whole parameters by "<parameter>.<kind>", on every
  // rank, as those of the optimizer without sharding. Needs a FusedOptimizer.
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
