#include "argosy/fleet/model.h"

#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <algorithm>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/data_parallel/compression.h"
#include "argosy/data_parallel/sync_batch_norm.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/fleet/axes.h"
#include "argosy/fleet/compression_of.h"
#include "argosy/fleet/hybrid_utils.h"
#include "argosy/fleet/input_check.h"
#include "argosy/fleet/offload_of.h"
#include "argosy/fleet/registry.h"
#include "argosy/fleet/spread_model.h"
#include "argosy/fleet/strategy.h"

namespace argosy::fleet {

namespace {

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() != nullptr ||
      module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
      module.as<torch::nn::BatchNorm3dImpl>() != nullptr;
}

void cast_all(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  for (const auto& item : tensors) {
    const at::Tensor& tensor = item.value();
    if (tensor.defined() && is_deferred(tensor)) {
      cast_deferred(tensor, at::kBFloat16);
    } else if (tensor.defined() && tensor.is_floating_point()) {
      // Keeps the handle: optimizers made earlier hold the same parameter.
      tensor.set_data(tensor.to(at::kBFloat16));
    }
  }
}

// Batch norms stay float32: batch statistics need the precision, and the module
// accepts bfloat16 inputs.
void cast_weights(torch::nn::Module& module) {
  for (const auto& each : module.modules()) {
    if (!is_batch_norm(*each)) {
      cast_all(each->named_parameters(false));
      cast_all(each->named_buffers(false));
    }
  }
}

bool is_local(const DistributedStrategy& strategy) {
  return strategy.localsgd || strategy.adaptive_localsgd;
}

// Ranks that share one copy of the model need the same parameters at every
// step; only copies can step on their own.
void check_copies(const DistributedStrategy& strategy, const Axes& axes) {
  ARGOSY_CHECK(
      !is_local(strategy) || !strategy.is_sharded() ||
          axes.replicas->nranks() > 1 || axes.world->nranks() == 1,
      "[fleet.distributed_model] localsgd with sharding averages over the "
      "copies of the sharded model, and there is one: give "
      "hybrid_configs.sharding_degree and dp_degree above 1");
}

// At most one applies: strategy_check.cpp excludes combinations.
std::shared_ptr<data_parallel::BucketHook> hook_of(
    const DistributedStrategy& strategy) {
  if (strategy.fp16_allreduce) {
    return fp16_compression();
  }
  return strategy.bf16_allreduce ? bf16_compression() : power_sgd_of(strategy);
}

DataParallelOptions options_of(
    const DistributedStrategy& strategy, const Axes& axes) {
  DataParallelOptions options;
  options.comm_buffer_size = strategy.fuse_grad_size_in_MB;
  options.last_comm_buffer_size = strategy.last_comm_group_size_MB;
  options.fusion = strategy.fuse_all_reduce_ops
      ? data_parallel::Fusion::Mode::Size
      : data_parallel::Fusion::Mode::None;
  options.find_unused_parameters = strategy.find_unused_parameters;
  options.main_grad = has_main_grads(strategy);
  options.group = axes.data;
  options.expert_group = axes.expert_data;
  options.hook = hook_of(strategy);
  return options;
}

bool has_parameter_in(
    const torch::nn::Module& module, const std::string& layer) {
  const auto parameters = module.named_parameters(true);
  return std::ranges::any_of(parameters, [&](const auto& item) {
    return item.key().starts_with(layer + ".");
  });
}

// The layers of exclude_layer that this rank has. Each stage of a pipeline has
// others, so a name must match on one of them; collective over the stages.
std::vector<std::string> excluded_here(
    const torch::nn::Module& module,
    const std::vector<std::string>& layers,
    const HybridMesh& hybrid) {
  if (layers.empty() || hybrid.size_on("pipe") == 1) {
    return layers; // ShardedCore checks them
  }
  std::vector<std::string> here;
  const at::Tensor found =
      at::zeros({static_cast<std::int64_t>(layers.size())}, at::kInt);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (has_parameter_in(module, layers[i])) {
      here.push_back(layers[i]);
      found[static_cast<std::int64_t>(i)] = 1;
    }
  }
  all_reduce(found, ReduceOp::MAX, hybrid.group_over({"pipe"}));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    ARGOSY_CHECK(
        found[static_cast<std::int64_t>(i)].item<int>() != 0,
        "[fleet.strategy] sharding_configs.exclude_layer: no stage has a "
        "parameter in a module \"{}\"",
        layers[i]);
  }
  return here;
}

// ZeRO 3 itself makes parameters that were built under DeferredInit, one after
// the other.
void make_real(torch::nn::Module& module, const DistributedStrategy& strategy) {
  if (!strategy.is_sharded() || strategy.sharding_configs.stage < 3) {
    materialize(module);
  }
  for (const at::Tensor& buffer : module.buffers()) {
    materialize(buffer);
  }
}

sharding::ShardingOptions sharding_of(
    const torch::nn::Module& module,
    const DistributedStrategy& strategy,
    const Axes& axes) {
  const ShardingConfigs& configs = strategy.sharding_configs;
  sharding::ShardingOptions options;
  options.group = axes.sharding;
  options.dp_group = axes.replicas->nranks() > 1 ? axes.replicas : nullptr;
  options.expert_dp_group = axes.expert_replicas;
  options.mp_group = axes.model;
  options.buffer_max_size =
      static_cast<std::size_t>(configs.comm_buffer_size_MB * (1 << 20));
  options.units = configs.units;
  options.segment_size =
      static_cast<std::size_t>(configs.segment_size_KB * (1 << 10));
  options.exclude_layer =
      excluded_here(module, configs.exclude_layer, *axes.hybrid);
  options.find_unused_parameters = strategy.find_unused_parameters;
  options.main_grad = has_main_grads(strategy);
  options.sent_type = sent_type_of(strategy);
  options.hook = power_sgd_of(strategy);
  options.is_local = is_local(strategy);
  options.offload = offload_of(strategy);
  options.offload_grads = configs.offload_grads;
  options.offload_params = configs.offload_params;
  return options;
}

} // namespace

optim::AutoCastLists autocast_lists(const DistributedStrategy& strategy) {
  if (!strategy.amp) {
    return {};
  }
  return {
      strategy.amp_configs.custom_white_list,
      strategy.amp_configs.custom_black_list};
}

RecomputeOptions recompute_options(const RecomputeConfigs& configs) {
  RecomputeOptions options;
  if (configs.enable_offload) {
    options.store = open_file_activation_store();
  }
  return options;
}

std::shared_ptr<const RecomputedModules> recomputed_of(
    const torch::nn::Module& module, const DistributedStrategy& strategy) {
  if (!strategy.recompute) {
    return nullptr;
  }
  const RecomputeConfigs& configs = strategy.recompute_configs;
  return std::make_shared<RecomputedModules>(
      module, configs.checkpoints, recompute_options(configs));
}

ModelSetup prepare_model(
    torch::nn::Module& module,
    const DistributedStrategy& strategy,
    const Axes& axes,
    std::shared_ptr<Registry> registry) {
  if (is_spread(module)) {
    return prepare_spread_model(module, strategy, axes, std::move(registry));
  }
  check_copies(strategy, axes);
  make_real(module, strategy);
  // All that changes modules or dtypes comes before make_core(), which sees the
  // final parameters.
  if (strategy.sync_batch_norm) {
    convert_sync_batchnorm(module, axes.data);
  }
  if (strategy.amp && strategy.amp_configs.use_pure_bf16) {
    cast_weights(module);
  }
  utils::broadcast_mp_parameters(module, axes.hybrid);
  ModelSetup setup;
  setup.options = options_of(strategy, axes);
  if (strategy.is_sharded()) {
    setup.level =
        static_cast<sharding::Level>(strategy.sharding_configs.stage - 1);
    setup.sharding = sharding_of(module, strategy, axes);
  }
  setup.autocast = strategy.amp;
  setup.autocast_lists = autocast_lists(strategy);
  // A sharded model still reduces gradients over the ranks that share it.
  setup.is_local = is_local(strategy) && !strategy.is_sharded();
  // The hook of dgc needs the optimizer's momentum; Registry::link() sets it.
  if (strategy.dgc) {
    setup.hook = std::make_shared<DeferredHook>();
    setup.options.hook = setup.hook;
    setup.sharding.hook = setup.hook;
  }
  setup.registry = std::move(registry);
  setup.input_check = make_input_check(axes.model);
  return setup;
}

std::shared_ptr<training::ModelCore> detail::make_core(
    torch::nn::Module& module, const ModelSetup& setup) {
  if (setup.spread) {
    return std::make_shared<SpreadCore>(module, *setup.spread);
  }
  if (setup.level) {
    return std::make_shared<sharding::ShardedCore>(
        module, *setup.level, setup.sharding);
  }
  return std::make_shared<data_parallel::DataParallelCore>(
      module, setup.options);
}

void detail::register_model(
    const std::shared_ptr<training::ModelCore>& core,
    torch::nn::Module& module,
    const ModelSetup& setup) {
  RegisteredModel side;
  side.core = core;
  side.is_local = setup.is_local;
  side.is_spread = setup.spread.has_value();
  side.hook = setup.hook;
  side.compression = setup.spread ? setup.spread->hook
      : setup.level               ? setup.sharding.hook
                                  : setup.options.hook;
  side.served = setup.served;
  for (const auto& item : module.named_parameters(true)) {
    // Modules may register undefined parameters, such as an absent bias.
    if (item.value().defined()) {
      side.names.emplace(item.value().unsafeGetTensorImpl(), item.key());
    }
  }
  setup.registry->add(std::move(side));
}

bool detail::is_merging(
    const Registry& registry, const training::ModelCore& core) {
  return registry.is_merging(&core);
}

void detail::check_inputs(
    InputCheck& check, const std::vector<at::Tensor>& inputs) {
  check.compare(inputs, "inputs");
}

void detail::widen(at::Tensor& tensor) {
  if (tensor.defined() && tensor.scalar_type() == at::kBFloat16) {
    tensor = tensor.to(at::kFloat);
  }
}

} // namespace argosy::fleet
