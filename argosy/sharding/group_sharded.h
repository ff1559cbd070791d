#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "argosy/optim/grad_scaler.h"
#include "argosy/sharding/sharded_core.h"
#include "argosy/sharding/sharded_optimizer.h"
#include "argosy/training/parallel_model.h"

namespace argosy::sharding {

// A module whose training state is spread over the ranks.
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

// Spreads what training keeps over the ranks of a group, each of which trains
// with data of its own:
//
//   auto [model, optimizer, scaler] =
//       sharding::group_sharded_parallel(net, adam, "p_g_os");
//   criterion(model(x), y).backward();
//   optimizer.step();
//   optimizer.zero_grad();
//
// `level` is "os" (states of the optimizer), "os_g" (and gradients) or "p_g_os"
// (and parameters). The module stays the same object and its parameters the
// same tensors; `optimizer` must outlive the result. With p_g_os a parameter
// has its values while an op uses it, or within model.whole(). All ranks call
// it alike, and then have the first rank's values. A scaler agrees with the
// other ranks on the steps that it leaves out.
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

// All ranks: writes model.pt, which torch::load() reads into the plain module,
// and with an optimizer of argosy::optim its states, optimizer.pt, into a
// directory, which is made (ranks with parts of the same layers: each its own).
// One rank writes; a file is there whole or not at
// all. Throws InvalidArgument when `output` is a file, SystemError on all ranks
// when writing fails.
void save_group_sharded_model(
    ShardedCore& core,
    const std::filesystem::path& output,
    ShardedOptimizer* optimizer = nullptr);

template <typename Module>
void save_group_sharded_model(
    ShardedModel<Module>& model,
    const std::filesystem::path& output,
    ShardedOptimizer* optimizer = nullptr) {
  save_group_sharded_model(*model.core(), output, optimizer);
}

// All ranks: the other way round, for any number of ranks and any level.
void load_group_sharded_model(
    ShardedCore& core,
    const std::filesystem::path& input,
    ShardedOptimizer* optimizer = nullptr);

template <typename Module>
void load_group_sharded_model(
    ShardedModel<Module>& model,
    const std::filesystem::path& input,
    ShardedOptimizer* optimizer = nullptr) {
  load_group_sharded_model(*model.core(), input, optimizer);
}

} // namespace argosy::sharding
