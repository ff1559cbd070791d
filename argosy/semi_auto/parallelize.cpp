#include "argosy/semi_auto/parallelize.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/pattern.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/value_checks.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/pipeline/cut/cut_stage.h"
#include "argosy/semi_auto/layer_plan.h"

namespace argosy {

namespace {

using semi_auto::apply_plan;
using semi_auto::PlannedLayer;

bool matches(
    const std::string& name, const std::string& text, const Pattern& pattern) {
  // The literal comparison is for names with characters that a regular
  // expression reads differently.
  return name == text || pattern.matches(name);
}

// Applies plans to everything that a pattern matches; returns the number of
// matches.
int apply_everywhere(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    int axis,
    const std::string& pattern,
    const LayerPlans& plans) {
  const Pattern compiled(pattern, "[parallelize]");
  int count = 0;
  const auto visit = [&](const std::string& name, torch::nn::Module& module) {
    const PlannedLayer layer{name, module, mesh, axis};
    const auto apply_all = [&](const std::string& parameter) {
      ++count;
      for (const LayerPlan& plan : plans) {
        apply_plan(layer, plan, parameter);
      }
    };
    if (matches(name, pattern, compiled)) {
      apply_all("");
      return;
    }
    for (const auto& each : module.named_parameters(false)) {
      const std::string full =
          name.empty() ? each.key() : str(name, ".", each.key());
      if (matches(full, pattern, compiled)) {
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

int axis_called(
    const ProcessMesh& mesh, const std::string& name, const char* purpose) {
  const auto& names = mesh.dim_names();
  const auto found = std::ranges::find(names, name);
  ARGOSY_CHECK(
      found != names.end(),
      "[parallelize] {} has no axis {}, over which {}",
      mesh,
      name,
      purpose);
  return static_cast<int>(found - names.begin());
}

void apply_mp(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    const ParallelizeConfig::Mp& config) {
  const int axis = axis_called(mesh, "mp", "mp_config shards layers");
  for (const auto& [pattern, plans] : config.parallelize_plan) {
    if (apply_everywhere(model, mesh, axis, pattern, plans) == 0) {
      log::warn("[parallelize] no layer or parameter matches ", pattern);
    }
  }
}

// LibTorch's Module has no forward() to record.
void check_has_no_stages(const ParallelizeConfig& config) {
  ARGOSY_CHECK(
      !config.pp_config,
      "[parallelize] pp_config needs to run the model, and a "
      "torch::nn::Module& does not tell how; expected "
      "parallelize(pipeline::existing(model), {inputs of a microbatch}, mesh, "
      "config)");
}

// Shards parameters that no plan placed before the model is replicated, so that
// no rank ever holds all of them.
void shard_unplaced(
    const std::vector<at::Tensor>& parameters,
    const ProcessMesh& mesh,
    int axis) {
  const Placements whole(static_cast<std::size_t>(mesh.ndim()), Replicate());
  for (const at::Tensor& each : parameters) {
    if (!is_dtensor(each)) {
      shard_tensor_(
          each, mesh, semi_auto::sharded_over(whole, axis, each.sizes().vec()));
    }
  }
}

// By index: the mesh of the parameters may name its axes differently.
ShardingStage stage_of(
    const ProcessMesh& mesh, const ParallelizeConfig& config) {
  if (!config.dp_config || config.dp_config->sharding_level == 0) {
    return {};
  }
  return {
      config.dp_config->sharding_level,
      mesh.axis_index(config.dp_config->sharding_mesh_dim)};
}

// Rows over the axes of data parallelism; other ranks have the same.
Placements rows_on(const ProcessMesh& mesh, const ParallelizeConfig& config) {
  std::vector<Placement> placements;
  for (const std::string& name : mesh.dim_names()) {
    const bool has_rows = name == "dp" ||
        (config.dp_config && name == config.dp_config->sharding_mesh_dim);
    placements.push_back(
        has_rows ? Placement(Shard(0)) : Placement(Replicate()));
  }
  return Placements(placements);
}

// Makes DTensors of all parameters and buffers. With a sharding_level of 3,
// those of `trained` are sharded over the data parallel axis.
void place_states(
    torch::nn::Module& model,
    const std::vector<at::Tensor>& trained,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config) {
  semi_auto::check_initial_values(model, mesh, "parallelize");
  const dtensor::TrustedValues compared;
  if (!config.mp_config.parallelize_plan.empty()) {
    apply_mp(model, mesh, config.mp_config);
  }
  const ShardingStage stage = stage_of(mesh, config);
  if (stage.stage == 3) {
    shard_unplaced(trained, mesh, mesh.axis_index(*stage.axis));
  }
  shard_layer(model, mesh);
}

} // namespace

void parallelize(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config) {
  check_has_no_stages(config);
  place_states(model, {}, mesh, config);
}

ShardOptimizer parallelize(
    torch::nn::Module& model,
    torch::optim::Optimizer& optimizer,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config) {
  check_has_no_stages(config);
  std::vector<at::Tensor> trained;
  for (const auto& group : optimizer.param_groups()) {
    const auto& own = group.params();
    trained.insert(trained.end(), own.begin(), own.end());
  }
  place_states(model, trained, mesh, config);
  return shard_optimizer(optimizer, stage_of(mesh, config));
}

std::shared_ptr<pipeline::CutStage> parallelize(
    const pipeline::LayerDesc& model,
    std::vector<at::Tensor> examples,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config) {
  const int axis = axis_called(mesh, "pp", "pp_config splits the model");
  const auto ranks = rank_mesh(mesh);
  const ProcessMesh stage_mesh =
      mesh.at(axis, ranks->coordinates()[static_cast<std::size_t>(axis)]);
  const auto pp = config.pp_config.value_or(ParallelizeConfig::Pp());
  pipeline::CutOptions options{
      .group = ranks->group(axis),
      .chunks = pp.chunks,
      .order = pp.order,
      .split_spec = pp.split_spec,
      .recompute = pp.recompute};
  options.spread = pipeline::Spread{
      .mesh = stage_mesh,
      .inputs = rows_on(stage_mesh, config),
      .place_states = [stage_mesh, config](torch::nn::Module& states) {
        place_states(states, states.parameters(), stage_mesh, config);
      }};
  return std::make_shared<pipeline::CutStage>(
      model, std::move(examples), std::move(options));
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
