#pragma once

#include <utility>

#include "argosy/optim/grad_scaler.h"
#include "argosy/semi_auto/shard_optimizer.h"

namespace argosy {

// Loss scaling for a model of DTensors. Skips steps in which a gradient is
// infinite or NaN on any rank of the mesh:
//
//   auto scaler = shard_scaler({.init_loss_scaling = 1024});
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // a ShardOptimizer
//   scaler.update();
//
// Each rank checks its shards, then the ranks reduce one number. All ranks of
// the mesh call the same methods; unscale_() and step() block. Otherwise it
// behaves as optim::GradScaler, which holds its state.
class ShardScaler {
 public:
  explicit ShardScaler(optim::GradScaler scaler);

  at::Tensor scale(const at::Tensor& loss) const;
  void unscale_(ShardOptimizer& optimizer);
  bool step(ShardOptimizer& optimizer);
  void update();

  const optim::GradScaler& scaler() const { return scaler_; }

 private:
  optim::GradScaler scaler_;
};

inline ShardScaler shard_scaler(optim::GradScaler scaler) {
  return ShardScaler(std::move(scaler));
}
inline ShardScaler shard_scaler(const optim::GradScalerOptions& options = {}) {
  return ShardScaler(optim::GradScaler(options));
}

} // namespace argosy
