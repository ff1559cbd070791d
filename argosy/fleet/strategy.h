#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "argosy/fleet/strategy_sections.h"

namespace argosy::fleet {

// How a model is trained on many ranks: switches, and what each needs to know.
// Assigning a value that is out of range throws InvalidArgument at once. Print
// it for a table of all settings.
struct DistributedStrategy : Section {
  DistributedStrategy();
  DistributedStrategy(const DistributedStrategy&);
  DistributedStrategy& operator=(const DistributedStrategy&);
  ~DistributedStrategy() override;

  Setting<bool> amp{
      this, "amp", false, "compute forward in bfloat16 and scale the loss"};
  AmpConfigs amp_configs{this, "amp_configs", "for amp"};

  Setting<bool> recompute{
      this,
      "recompute",
      false,
      "run the forward of some modules again in backward instead of keeping "
      "their activations"};
  RecomputeConfigs recompute_configs{
      this, "recompute_configs", "for recompute"};

  Setting<bool> gradient_merge{
      this,
      "gradient_merge",
      false,
      "accumulate the gradients of several batches before a step"};
  GradientMergeConfigs gradient_merge_configs{
      this, "gradient_merge_configs", "for gradient_merge"};

  Setting<bool> localsgd{
      this,
      "localsgd",
      false,
      "ranks step on their own and average their parameters every k_steps "
      "steps"};
  LocalSgdConfigs localsgd_configs{this, "localsgd_configs", "for localsgd"};

  Setting<bool> adaptive_localsgd{
      this,
      "adaptive_localsgd",
      false,
      "localsgd that adapts k_steps to the loss"};
  AdaptiveLocalSgdConfigs adaptive_localsgd_configs{
      this, "adaptive_localsgd_configs", "for adaptive_localsgd"};

  Setting<bool> dgc{
      this,
      "dgc",
      false,
      "deep gradient compression: send only the largest gradients; needs SGD "
      "with momentum"};
  DgcConfigs dgc_configs{this, "dgc_configs", "for dgc"};

  Setting<bool> fp16_allreduce{
      this, "fp16_allreduce", false, "send gradients as float16"};
  Setting<bool> bf16_allreduce{
      this, "bf16_allreduce", false, "send gradients as bfloat16"};

  Setting<bool> power_sgd{
      this, "power_sgd", false, "send low-rank approximations of gradients"};
  PowerSgdConfigs power_sgd_configs{this, "power_sgd_configs", "for power_sgd"};

  Setting<bool> lars{this, "lars", false, "replace SGD with momentum by LARS"};
  LarsConfigs lars_configs{this, "lars_configs", "for lars"};

  Setting<bool> lamb{this, "lamb", false, "replace Adam or AdamW by LAMB"};
  LambConfigs lamb_configs{this, "lamb_configs", "for lamb"};

  Setting<bool> grad_clip{
      this, "grad_clip", false, "clip gradients before a step"};
  GradClipConfigs grad_clip_configs{this, "grad_clip_configs", "for grad_clip"};

  Setting<bool> ema{
      this,
      "ema",
      false,
      "keep an exponential moving average of the parameters"};
  EmaConfigs ema_configs{this, "ema_configs", "for ema"};

  HybridConfigs hybrid_configs{
      this, "hybrid_configs", "how ranks divide the work"};

  PipelineConfigs pipeline_configs{
      this, "pipeline_configs", "for hybrid_configs.pp_degree above 1"};

  Setting<bool> sharding{
      this,
      "sharding",
      false,
      "shard the training state (ZeRO) over all ranks with their own data, "
      "unless hybrid_configs.sharding_degree gives a number"};
  ShardingConfigs sharding_configs{
      this,
      "sharding_configs",
      "for sharding, and for hybrid_configs.sharding_degree above 1"};

  Setting<bool> a_sync{
      this,
      "a_sync",
      false,
      "jobs with parameter servers: workers do not wait for each other's "
      "steps"};
  ASyncConfigs a_sync_configs{this, "a_sync_configs", "for a_sync"};
  PsConfigs ps_configs{
      this, "ps_configs", "what parameter servers hold, and how"};

  GradientScaleConfigs gradient_scale_configs{
      this, "gradient_scale_configs", "sum or average of gradients"};

  Setting<bool> sync_batch_norm{
      this,
      "sync_batch_norm",
      false,
      "compute batch statistics over all ranks"};
  Setting<bool> find_unused_parameters{
      this,
      "find_unused_parameters",
      false,
      "allow steps that leave parameters without a gradient"};
  Setting<bool> fuse_all_reduce_ops{
      this, "fuse_all_reduce_ops", true, "reduce gradients in buckets"};
  Setting<double> fuse_grad_size_in_MB{
      this, "fuse_grad_size_in_MB", 32, above(0), "size of a bucket"};
  Setting<double> last_comm_group_size_MB{
      this,
      "last_comm_group_size_MB",
      1,
      above(0),
      "size of the last bucket, which nothing overlaps"};

  // From and to a file of JSON. load() also reads the text format of protocol
  // buffers, which Paddle's save_to_prototxt() writes. Throw InvalidArgument as
  // merge_json() does, and SystemError.
  static DistributedStrategy load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

  static DistributedStrategy from_json(std::string_view text);

  // By the switch, or by hybrid_configs.
  bool is_sharded() const {
    return sharding || hybrid_configs.sharding_degree > 1;
  }

  // The file that load() read; empty if there is none. Errors name it.
  const std::string& source() const { return source_; }

 private:
  std::string source_;
};

} // namespace argosy::fleet
