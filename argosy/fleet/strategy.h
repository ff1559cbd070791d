#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/fleet/setting.h"

namespace argosy::fleet {

struct AmpConfigs : Section {
  using Section::Section;

  Setting<double> init_loss_scaling{
      this,
      "init_loss_scaling",
      32768,
      above(0),
      "what the loss is multiplied by at first"};
  Setting<int> incr_every_n_steps{
      this,
      "incr_every_n_steps",
      1000,
      at_least(1),
      "finite steps in a row before the scale grows"};
  Setting<int> decr_every_n_nan_or_inf{
      this,
      "decr_every_n_nan_or_inf",
      2,
      at_least(1),
      "steps in a row that were not finite before it shrinks"};
  Setting<double> incr_ratio{
      this, "incr_ratio", 2, above(1), "what it grows by"};
  Setting<double> decr_ratio{
      this, "decr_ratio", 0.8, between(0, 1), "what it shrinks by"};
  Setting<bool> use_dynamic_loss_scaling{
      this,
      "use_dynamic_loss_scaling",
      true,
      anything(),
      "grow and shrink it at all"};
  Setting<bool> use_pure_bf16{
      this,
      "use_pure_bf16",
      false,
      anything(),
      "keep the weights in bfloat16 too, with masters in the optimizer"};
  Setting<bool> use_main_grad{
      this,
      "use_main_grad",
      false,
      anything(),
      "add up and reduce their gradients in float32"};
};

struct GradientMergeConfigs : Section {
  using Section::Section;

  Setting<int> k_steps{this, "k_steps", 1, at_least(1), "batches for one step"};
  Setting<bool> avg{
      this, "avg", true, anything(), "divide their sum by k_steps"};
};

struct LocalSgdConfigs : Section {
  using Section::Section;

  Setting<int> k_steps{
      this, "k_steps", 1, at_least(1), "steps between two averages"};
  Setting<int> begin_step{
      this,
      "begin_step",
      1,
      at_least(1),
      "up to this step, every one averages"};
};

struct AdaptiveLocalSgdConfigs : Section {
  using Section::Section;

  Setting<int> init_k_steps{
      this,
      "init_k_steps",
      1,
      at_least(1),
      "steps between two averages at first"};
  Setting<int> begin_step{
      this,
      "begin_step",
      1,
      at_least(1),
      "up to this step, every one averages"};
};

struct DgcConfigs : Section {
  using Section::Section;

  Setting<int> rampup_begin_step{
      this, "rampup_begin_step", 0, at_least(0), "plain momentum before"};
  Setting<int> rampup_step{
      this,
      "rampup_step",
      1,
      at_least(1),
      "steps over which the sparsities are walked"};
  Setting<std::vector<double>> sparsity{
      this,
      "sparsity",
      {0.999},
      from_to(0, 1),
      "parts of the gradients that wait"};
};

struct PowerSgdConfigs : Section {
  using Section::Section;

  Setting<int> rank{
      this, "rank", 2, at_least(1), "of the matrices that are sent"};
  Setting<int> start_step{
      this, "start_step", 10, at_least(0), "plain averages before"};
  Setting<double> min_compression{
      this,
      "min_compression",
      2,
      at_least(1),
      "what shrinks less is sent as it is"};
};

struct LarsConfigs : Section {
  using Section::Section;

  Setting<double> lars_coeff{
      this, "lars_coeff", 0.001, above(0), "trust in a layer"};
  Setting<double> lars_weight_decay{
      this, "lars_weight_decay", 0.0005, at_least(0), "weight decay"};
  Setting<double> epsilon{
      this, "epsilon", 0, at_least(0), "added to the divisor"};
  Setting<std::vector<std::string>> exclude_from_weight_decay{
      this,
      "exclude_from_weight_decay",
      {},
      anything(),
      "parameters whose names contain one of these have none"};
};

struct LambConfigs : Section {
  using Section::Section;

  Setting<double> lamb_weight_decay{
      this, "lamb_weight_decay", 0.01, at_least(0), "weight decay"};
  Setting<std::vector<std::string>> exclude_from_weight_decay{
      this,
      "exclude_from_weight_decay",
      {},
      anything(),
      "parameters whose names contain one of these have none"};
};

struct GradClipConfigs : Section {
  using Section::Section;

  Setting<std::string> by{
      this,
      "by",
      "norm",
      one_of({"norm", "value"}),
      "the norm of all gradients, or each number"};
  Setting<double> limit{this, "limit", 1, above(0), "what it is cut to"};
};

struct EmaConfigs : Section {
  using Section::Section;

  Setting<double> decay{
      this, "decay", 0.999, from_to(0, 1), "share of the past"};
  Setting<bool> bias_correction{
      this,
      "bias_correction",
      false,
      anything(),
      "begin at 0, and correct for it"};
};

struct GradientScaleConfigs : Section {
  using Section::Section;

  Setting<std::string> scale_strategy{
      this,
      "scale_strategy",
      "avg",
      one_of({"avg", "sum", "customized"}),
      "what becomes of the ranks' gradients; customized: the sum, of losses "
      "that you scale"};
};

// Numbers of ranks multiply to the size of the world.
struct HybridConfigs : Section {
  using Section::Section;

  Setting<int> dp_degree{
      this,
      "dp_degree",
      -1,
      at_least(-1),
      "copies of the model with their own data; -1: what the others leave"};
  Setting<int> pp_degree{
      this, "pp_degree", 1, at_least(1), "stages of a pipeline"};
  Setting<int> sharding_degree{
      this,
      "sharding_degree",
      1,
      at_least(1),
      "ranks with their own data that share what training keeps"};
  Setting<int> sep_degree{
      this, "sep_degree", 1, at_least(1), "parts of a sequence"};
  Setting<int> mp_degree{
      this, "mp_degree", 1, at_least(1), "parts of a layer (tensor parallel)"};
  Setting<int> ep_degree{
      this,
      "ep_degree",
      1,
      at_least(1),
      "ranks with their own data that share experts"};
  Setting<std::vector<std::string>> order{
      this,
      "order",
      {"dp", "pp", "sharding", "sep", "mp"},
      one_of({"dp", "pp", "sharding", "sep", "mp", "ep"}),
      "of the axes, the last one the ranks that are nearest"};
  Setting<bool> sync_param{
      this,
      "sync_param",
      false,
      anything(),
      "after a step, ranks of a tensor parallel group take over what should be "
      "the same from the first"};
};

struct PipelineConfigs : Section {
  using Section::Section;

  Setting<int> accumulate_steps{
      this, "accumulate_steps", 1, at_least(1), "microbatches of a batch"};
  Setting<int> micro_batch_size{
      this,
      "micro_batch_size",
      0,
      at_least(0),
      "rows of a microbatch, to be checked; 0: any"};
  Setting<std::string> schedule_mode{
      this,
      "schedule_mode",
      "1F1B",
      anything(),
      "what a stage does when: FThenB, 1F1B, Eager, VPP, ZBH1, ZBV"};
  Setting<std::string> schedule_file{
      this,
      "schedule_file",
      "",
      anything(),
      "a schedule that argosy plan pipeline has saved, instead"};
  Setting<std::string> loss_reduction{
      this,
      "loss_reduction",
      "mean",
      one_of({"mean", "sum"}),
      "of the losses of a batch's microbatches"};
  Setting<bool> delay_scale_loss{
      this,
      "delay_scale_loss",
      false,
      anything(),
      "for the mean, divide gradients at the end instead of each loss"};
  Setting<bool> p2p_cache_shape{
      this,
      "p2p_cache_shape",
      true,
      anything(),
      "microbatches of the same shape have the same shapes between stages"};
};

struct ShardingConfigs : Section {
  using Section::Section;

  Setting<int> stage{
      this,
      "stage",
      1,
      Range{.least = 1, .most = 3},
      "1: states of the optimizer; 2: and gradients; 3: and parameters"};
  Setting<double> comm_buffer_size_MB{
      this,
      "comm_buffer_size_MB",
      8,
      at_least(0),
      "communicated together in stages 1 and 2"};
  Setting<std::vector<std::string>> units{
      this,
      "units",
      {},
      anything(),
      "in stage 3, modules that are gathered as one; none: entries of lists"};
  Setting<double> segment_size_KB{
      this,
      "segment_size_KB",
      256,
      at_least(0),
      "in stage 3, smaller modules go with their neighbours"};
  Setting<std::vector<std::string>> exclude_layer{
      this,
      "exclude_layer",
      {},
      anything(),
      "in stage 3, modules that stay whole"};
  Setting<bool> offload{
      this,
      "offload",
      false,
      anything(),
      "keep states of the optimizer in a file between steps"};
  Setting<bool> offload_grads{
      this,
      "offload_grads",
      false,
      anything(),
      "and, in stages 2 and 3, gradients"};
  Setting<bool> offload_params{
      this, "offload_params", false, anything(), "and, in stage 3, parameters"};
  Setting<std::string> offload_path{
      this, "offload_path", "./offload", anything(), "the folder of the file"};
  Setting<double> offload_cpu_size_MB{
      this,
      "offload_cpu_size_MB",
      0,
      at_least(0),
      "states that may stay in memory"};
};

// How a model is trained on many ranks: switches, and what each needs to know.
// Assigning a value that is out of range throws InvalidArgument at once. Print
// it for a table of all settings.
struct DistributedStrategy : Section {
  DistributedStrategy();
  DistributedStrategy(const DistributedStrategy&);
  DistributedStrategy& operator=(const DistributedStrategy&);
  ~DistributedStrategy() override;

  Setting<bool> amp{
      this,
      "amp",
      false,
      anything(),
      "compute forward in bfloat16, scale the loss"};
  AmpConfigs amp_configs{this, "amp_configs", "for amp"};

  Setting<bool> gradient_merge{
      this,
      "gradient_merge",
      false,
      anything(),
      "add up the gradients of several batches for one step"};
  GradientMergeConfigs gradient_merge_configs{
      this, "gradient_merge_configs", "for gradient_merge"};

  Setting<bool> localsgd{
      this,
      "localsgd",
      false,
      anything(),
      "ranks step alone, and average their parameters now and then"};
  LocalSgdConfigs localsgd_configs{this, "localsgd_configs", "for localsgd"};

  Setting<bool> adaptive_localsgd{
      this,
      "adaptive_localsgd",
      false,
      anything(),
      "localsgd that chooses its own steps by the loss"};
  AdaptiveLocalSgdConfigs adaptive_localsgd_configs{
      this, "adaptive_localsgd_configs", "for adaptive_localsgd"};

  Setting<bool> dgc{
      this,
      "dgc",
      false,
      anything(),
      "send only the largest gradients; SGD with momentum"};
  DgcConfigs dgc_configs{this, "dgc_configs", "for dgc"};

  Setting<bool> fp16_allreduce{
      this, "fp16_allreduce", false, anything(), "send gradients as float16"};
  Setting<bool> bf16_allreduce{
      this, "bf16_allreduce", false, anything(), "send gradients as bfloat16"};

  Setting<bool> power_sgd{
      this,
      "power_sgd",
      false,
      anything(),
      "send low-rank approximations of gradients"};
  PowerSgdConfigs power_sgd_configs{this, "power_sgd_configs", "for power_sgd"};

  Setting<bool> lars{
      this,
      "lars",
      false,
      anything(),
      "LARS in the place of SGD with momentum"};
  LarsConfigs lars_configs{this, "lars_configs", "for lars"};

  Setting<bool> lamb{
      this, "lamb", false, anything(), "LAMB in the place of Adam or AdamW"};
  LambConfigs lamb_configs{this, "lamb_configs", "for lamb"};

  Setting<bool> grad_clip{
      this, "grad_clip", false, anything(), "clip gradients before a step"};
  GradClipConfigs grad_clip_configs{this, "grad_clip_configs", "for grad_clip"};

  Setting<bool> ema{
      this,
      "ema",
      false,
      anything(),
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
      anything(),
      "spread what training keeps (ZeRO); over all ranks with data of their "
      "own, unless hybrid_configs.sharding_degree says how many"};
  ShardingConfigs sharding_configs{
      this,
      "sharding_configs",
      "for sharding, and for hybrid_configs.sharding_degree above 1"};

  GradientScaleConfigs gradient_scale_configs{
      this, "gradient_scale_configs", "sum or average of gradients"};

  Setting<bool> sync_batch_norm{
      this,
      "sync_batch_norm",
      false,
      anything(),
      "batch statistics over all ranks"};
  Setting<bool> find_unused_parameters{
      this,
      "find_unused_parameters",
      false,
      anything(),
      "a step may leave parameters without gradient"};
  Setting<bool> fuse_all_reduce_ops{
      this,
      "fuse_all_reduce_ops",
      true,
      anything(),
      "reduce several gradients together"};
  Setting<double> fuse_grad_size_in_MB{
      this, "fuse_grad_size_in_MB", 32, above(0), "so many MB of them"};
  Setting<double> last_comm_group_size_MB{
      this,
      "last_comm_group_size_MB",
      1,
      above(0),
      "and of the last, which nothing hides"};

  // From and to a file of JSON. Throw InvalidArgument as merge_json() does, and
  // SystemError.
  static DistributedStrategy load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

  static DistributedStrategy from_json(std::string_view text);

  // By the switch, or by hybrid_configs.
  bool is_sharded() const {
    return sharding || hybrid_configs.sharding_degree > 1;
  }
};

} // namespace argosy::fleet
