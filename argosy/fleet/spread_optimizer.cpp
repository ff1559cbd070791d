#include "argosy/fleet/spread_optimizer.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/fleet/compression_of.h"
#include "argosy/fleet/offload_of.h"
#include "argosy/fleet/spread_gradients.h"
#include "argosy/fleet/strategy.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/offload/states.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/local.h"
#include "argosy/optim/parameter_groups.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::fleet {

namespace {

// By index: the parameters' mesh may be an equal one with other names.
ShardingStage stage_of(
    const DistributedStrategy& strategy, const ProcessMesh& mesh) {
  const auto& names = mesh.dim_names();
  const auto axis = std::ranges::find(names, "sharding");
  if (!strategy.is_sharded() || axis == names.end()) {
    return {};
  }
  return {
      strategy.sharding_configs.stage, static_cast<int>(axis - names.begin())};
}

OffloadedShards offloaded_of(const DistributedStrategy& strategy) {
  const auto options = offload_of(strategy);
  const ShardingConfigs& configs = strategy.sharding_configs;
  return {
      .parameters = configs.offload_params ? options : std::nullopt,
      .gradients = configs.offload_grads ? options : std::nullopt};
}

} // namespace

std::unique_ptr<SpreadOptimizer> SpreadOptimizer::make(
    torch::optim::Optimizer& optimizer,
    const DistributedStrategy& strategy,
    const HybridMesh& hybrid) {
  std::vector<at::Tensor> parameters = optim::params_of(optimizer);
  const ProcessMesh mesh = hybrid.mesh();
  if (parameters.empty() ||
      !std::ranges::all_of(parameters, [&](const auto& each) {
        return is_dtensor(each) && process_mesh_of(each) == mesh;
      })) {
    return nullptr;
  }
  std::unique_ptr<SpreadOptimizer> made(new SpreadOptimizer(
      optimizer,
      std::move(parameters),
      stage_of(strategy, mesh),
      offloaded_of(strategy)));
  made->shards_.send_gradients({sent_type_of(strategy), data_axes(mesh)});
  if (const auto options = offload_of(strategy)) {
    auto* fused = dynamic_cast<optim::FusedOptimizer*>(&optimizer);
    ARGOSY_CHECK(
        fused != nullptr,
        "[fleet.distributed_optimizer] sharding_configs.offload needs an "
        "optimizer of argosy::optim, which can name its states");
    offload::offload_states(*fused, *options);
  }
  return made;
}

SpreadOptimizer::SpreadOptimizer(
    torch::optim::Optimizer& optimizer,
    std::vector<at::Tensor> parameters,
    ShardingStage stage,
    const OffloadedShards& offloaded)
    : parameters_(std::move(parameters)),
      shards_(optimizer, std::move(stage), offloaded) {}

void SpreadOptimizer::clip_norm(double limit) {
  std::vector<at::Tensor> clipped; // parameters as the optimizer holds them
  std::vector<at::Tensor> grads;   // the same gradients as DTensors
  const auto held = optim::params_of(shards_.optimizer());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined() && marks_of(parameters_[i]).need_clip) {
      clipped.push_back(held[i]);
      grads.push_back(parameters_[i].grad());
    }
  }
  const double factor =
      optim::clip_factor(std::sqrt(optim::squared_norm(grads)), limit);
  if (factor != 1) {
    optim::scale_grads(clipped, factor);
  }
}

std::vector<at::Tensor> SpreadOptimizer::locals() const {
  return optim::locals_of(parameters_);
}

} // namespace argosy::fleet
