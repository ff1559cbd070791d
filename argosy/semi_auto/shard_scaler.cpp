#include "argosy/semi_auto/shard_scaler.h"

#include <numeric>
#include <utility>
#include <vector>

#include "argosy/mesh/rank_mesh.h"

namespace argosy {

namespace {

std::shared_ptr<Group> group_of(const ProcessMesh& mesh) {
  std::vector<int> axes(static_cast<std::size_t>(mesh.ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  const auto ranks = rank_mesh(mesh);
  return ranks->is_member() ? ranks->group_over(axes) : nullptr;
}

} // namespace

ShardScaler::ShardScaler(optim::GradScaler scaler)
    : scaler_(std::move(scaler)) {}

at::Tensor ShardScaler::scale(const at::Tensor& loss) const {
  return scaler_.scale(loss);
}

void ShardScaler::unscale_(ShardOptimizer& optimizer) {
  // Over the whole mesh: a shard with an infinity may be on any of its ranks,
  // and all must skip the step together.
  scaler_.set_group(group_of(optimizer.mesh()));
  optimizer.reshard_gradients();
  scaler_.unscale_(optimizer.optimizer());
}

bool ShardScaler::step(ShardOptimizer& optimizer) {
  scaler_.set_group(group_of(optimizer.mesh()));
  // In this order: the scaler checks, and the optimizer reads, the gradients of
  // the shards, which are up to date only after resharding.
  optimizer.reshard_gradients();
  const bool stepped = scaler_.step(optimizer.optimizer());
  if (stepped) {
    optimizer.update_parameters();
  }
  return stepped;
}

void ShardScaler::update() {
  scaler_.update();
}

} // namespace argosy
