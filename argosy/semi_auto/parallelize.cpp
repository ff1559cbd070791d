#include "argosy/semi_auto/parallelize.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <regex>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/dtensor/tensor/value_checks.h"
#include "argosy/semi_auto/layer_plan.h"

namespace argosy {

namespace {

using semi_auto::apply_plan;
using semi_auto::PlannedLayer;

std::regex compile(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    throw InvalidArgument(str_format(
        "[parallelize] {} is not a regular expression: {}",
        pattern,
        error.what()));
  }
}

bool matches(
    const std::string& name, const std::string& pattern, const std::regex& re) {
  // The literal comparison is for names with characters that a regular
  // expression reads differently.
  return name == pattern || std::regex_match(name, re);
}

// Applies plans to everything that a pattern matches; returns the number of
// matches.
int apply_everywhere(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    int axis,
    const std::string& pattern,
    const LayerPlans& plans) {
  const std::regex re = compile(pattern);
  int count = 0;
  const auto visit = [&](const std::string& name, torch::nn::Module& module) {
    const PlannedLayer layer{name, module, mesh, axis};
    const auto apply_all = [&](const std::string& parameter) {
      ++count;
      for (const LayerPlan& plan : plans) {
        apply_plan(layer, plan, parameter);
      }
    };
    if (matches(name, pattern, re)) {
      apply_all("");
      return;
    }
    for (const auto& each : module.named_parameters(false)) {
      const std::string full =
          name.empty() ? each.key() : str(name, ".", each.key());
      if (matches(full, pattern, re)) {
        apply_all(each.key());
      }
    }
  };
  // named_modules() below leaves the model itself out.
  visit("", model);
  for (const auto& each : model.named_modules("", false)) {
    visit(each.key(), *each.value());
  }
  return count;
}

int mp_axis(const ProcessMesh& mesh) {
  const auto& names = mesh.dim_names();
  const auto found = std::ranges::find(names, "mp");
  ARGOSY_CHECK(
      found != names.end(),
      "[parallelize] {} has no axis mp, over which mp_config shards layers",
      mesh);
  return static_cast<int>(found - names.begin());
}

void apply_mp(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    const ParallelizeConfig::Mp& config) {
  const int axis = mp_axis(mesh);
  for (const auto& [pattern, plans] : config.parallelize_plan) {
    if (apply_everywhere(model, mesh, axis, pattern, plans) == 0) {
      log::warn("[parallelize] no layer or parameter matches ", pattern);
    }
  }
}

void apply_plans(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config) {
  ARGOSY_CHECK(
      !config.pp_config || config.pp_config->split_spec.empty(),
      "[parallelize] pp_config: parallelize() does not split a model into "
      "stages; pass the split points to pipeline::CutStage");
  if (!config.mp_config.parallelize_plan.empty()) {
    apply_mp(model, mesh, config.mp_config);
  }
}

// Shards parameters that no plan placed before the model is replicated, so that
// no rank ever holds all of them.
void shard_unplaced(
    const torch::optim::Optimizer& optimizer,
    const ProcessMesh& mesh,
    int axis) {
  const Placements whole(static_cast<std::size_t>(mesh.ndim()), Replicate());
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& each : group.params()) {
      if (!is_dtensor(each)) {
        shard_tensor_(
            each,
            mesh,
            semi_auto::sharded_over(whole, axis, each.sizes().vec()));
      }
    }
  }
}

} // namespace

void parallelize(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config) {
  semi_auto::check_initial_values(model, mesh, "parallelize");
  const dtensor::TrustedValues compared;
  apply_plans(model, mesh, config);
  shard_layer(model, mesh);
}

ShardOptimizer parallelize(
    torch::nn::Module& model,
    torch::optim::Optimizer& optimizer,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config) {
  semi_auto::check_initial_values(model, mesh, "parallelize");
  const dtensor::TrustedValues compared;
  apply_plans(model, mesh, config);
  ShardingStage stage;
  if (config.dp_config && config.dp_config->sharding_level > 0) {
    // By index: the mesh of the parameters may name its axes differently.
    const int axis = mesh.axis_index(config.dp_config->sharding_mesh_dim);
    stage = {config.dp_config->sharding_level, axis};
    if (stage.stage == 3) {
      shard_unplaced(optimizer, mesh, axis);
    }
  }
  shard_layer(model, mesh);
  return shard_optimizer(optimizer, std::move(stage));
}

void parallelize(torch::nn::Module& model, const ParallelizeConfig& config) {
  parallelize(model, require_mesh("parallelize"), config);
}

ShardOptimizer parallelize(
    torch::nn::Module& model,
    torch::optim::Optimizer& optimizer,
    const ParallelizeConfig& config) {
  return parallelize(model, optimizer, require_mesh("parallelize"), config);
}

} // namespace argosy
