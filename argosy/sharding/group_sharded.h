#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "argosy/optim/grad_scaler.h"
#include "argosy/sharding/sharded_core.h"
#include "argosy/sharding/sharded_optimizer.h"
#include "argosy/training/parallel_model.h"

namespace argosy::sharding {

// Wraps a module whose training state is sharded over the ranks.
template <typename Module>
class ShardedModel : public training::ParallelModel<Module, ShardedCore> {
 public:
  ShardedModel(Module module, Level level, ShardingOptions options = {})
      : ShardedModel::ParallelModel(
            std::move(module), [&](torch::nn::Module& inner) {
              return std::make_shared<ShardedCore>(
                  inner, level, std::move(options));
            }) {}
};

template <typename Module>
struct GroupSharded {
  ShardedModel<Module> model;
  ShardedOptimizer optimizer;
  std::optional<optim::GradScaler> scaler;
};

// Shards the state of training over the ranks of a group, each of which trains
// on its own data:
//
//   auto [model, optimizer, scaler] =
//       sharding::group_sharded_parallel(net, adam, "p_g_os");
//   criterion(model(x), y).backward();
//   optimizer.step();
//   optimizer.zero_grad();
//
// `level` is "os" (optimizer state), "os_g" (and gradients) or "p_g_os" (and
// parameters). The module stays the same object and its parameters the same
// tensors. `optimizer` must outlive the result. With p_g_os a parameter has its
// values only while an op uses it, or during model.whole(). All ranks call it
// alike, which blocks; they then have the first rank's values. If a scaler is
// given, all ranks skip the same steps.
template <typename Module>
GroupSharded<Module> group_sharded_parallel(
    Module model,
    torch::optim::Optimizer& optimizer,
    const std::string& level,
    std::optional<optim::GradScaler> scaler = std::nullopt,
    ShardingOptions options = {}) {
  ShardedModel<Module> sharded(
      std::move(model), level_of(level), std::move(options));
  ShardedOptimizer stepper(optimizer, sharded.core());
  if (scaler) {
    scaler->set_group(sharded.core()->group());
  }
  return {std::move(sharded), std::move(stepper), std::move(scaler)};
}

} // namespace argosy::sharding
