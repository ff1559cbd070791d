#pragma once

#include <string>
#include <vector>

#include "argosy/fleet/setting.h"

// What the switches of a DistributedStrategy need to know, a section for each.
namespace argosy::fleet {

struct AmpConfigs : Section {
  using Section::Section;

  Setting<double> init_loss_scaling{
      this, "init_loss_scaling", 32768, above(0), "initial loss scale"};
  Setting<int> incr_every_n_steps{
      this,
      "incr_every_n_steps",
      1000,
      at_least(1),
      "consecutive finite steps before the scale grows"};
  Setting<int> decr_every_n_nan_or_inf{
      this,
      "decr_every_n_nan_or_inf",
      2,
      at_least(1),
      "consecutive non-finite steps before the scale shrinks"};
  Setting<double> incr_ratio{
      this, "incr_ratio", 2, above(1), "factor by which the scale grows"};
  Setting<double> decr_ratio{
      this,
      "decr_ratio",
      0.8,
      between(0, 1),
      "factor by which the scale shrinks"};
  Setting<bool> use_dynamic_loss_scaling{
      this,
      "use_dynamic_loss_scaling",
      true,
      "adapt the scale; if false, it stays at init_loss_scaling"};
  Setting<bool> use_pure_bf16{
      this,
      "use_pure_bf16",
      false,
      "keep the weights in bfloat16, with float32 master weights in the "
      "optimizer"};
  Setting<bool> use_main_grad{
      this,
      "use_main_grad",
      false,
      "accumulate and reduce gradients of bfloat16 weights in float32"};
  Setting<std::vector<std::string>> custom_white_list{
      this,
      "custom_white_list",
      {},
      "ops to compute in bfloat16, by Paddle's or LibTorch's names"};
  Setting<std::vector<std::string>> custom_black_list{
      this,
      "custom_black_list",
      {},
      "ops to compute in float32, by Paddle's or LibTorch's names"};
};

struct RecomputeConfigs : Section {
  using Section::Section;

  Setting<std::vector<std::string>> checkpoints{
      this,
      "checkpoints",
      {},
      "modules to run again, each by a regular expression of its whole name"};
  Setting<bool> enable_offload{
      this,
      "enable_offload",
      false,
      "keep the inputs of these modules in a file"};
};

struct GradientMergeConfigs : Section {
  using Section::Section;

  Setting<int> k_steps{this, "k_steps", 1, at_least(1), "batches per step"};
  Setting<bool> avg{
      this, "avg", true, "divide the accumulated gradients by k_steps"};
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
      "average after every step up to this one"};
};

struct AdaptiveLocalSgdConfigs : Section {
  using Section::Section;

  Setting<int> init_k_steps{
      this,
      "init_k_steps",
      1,
      at_least(1),
      "initial number of steps between two averages"};
  Setting<int> begin_step{
      this,
      "begin_step",
      1,
      at_least(1),
      "average after every step up to this one"};
};

struct DgcConfigs : Section {
  using Section::Section;

  Setting<int> rampup_begin_step{
      this,
      "rampup_begin_step",
      0,
      at_least(0),
      "step at which compression begins"};
  Setting<int> rampup_step{
      this,
      "rampup_step",
      1,
      at_least(1),
      "steps over which sparsity goes through its list"};
  Setting<std::vector<double>> sparsity{
      this,
      "sparsity",
      {0.999},
      from_to(0, 1),
      "fraction of the gradients that is not sent"};
};

struct PowerSgdConfigs : Section {
  using Section::Section;

  Setting<int> rank{this, "rank", 2, at_least(1), "rank of the approximations"};
  Setting<int> start_step{
      this, "start_step", 10, at_least(0), "step at which compression begins"};
  Setting<double> min_compression{
      this,
      "min_compression",
      2,
      at_least(1),
      "send gradients as they are that would shrink by less than this factor"};
};

struct LarsConfigs : Section {
  using Section::Section;

  Setting<double> lars_coeff{
      this, "lars_coeff", 0.001, above(0), "LARS trust coefficient"};
  Setting<double> lars_weight_decay{
      this, "lars_weight_decay", 0.0005, at_least(0), "weight decay"};
  Setting<double> epsilon{
      this,
      "epsilon",
      0,
      at_least(0),
      "added to the divisor of the local learning rate"};
  Setting<std::vector<std::string>> exclude_from_weight_decay{
      this,
      "exclude_from_weight_decay",
      {},
      "no weight decay for parameters whose names contain one of these"};
};

struct LambConfigs : Section {
  using Section::Section;

  Setting<double> lamb_weight_decay{
      this, "lamb_weight_decay", 0.01, at_least(0), "weight decay"};
  Setting<std::vector<std::string>> exclude_from_weight_decay{
      this,
      "exclude_from_weight_decay",
      {},
      "no weight decay for parameters whose names contain one of these"};
};

struct GradClipConfigs : Section {
  using Section::Section;

  Setting<std::string> by{
      this,
      "by",
      "norm",
      one_of({"norm", "value"}),
      "clip by the norm of all gradients, or each element by its value"};
  Setting<double> limit{
      this, "limit", 1, above(0), "largest norm, or largest absolute value"};
};

struct EmaConfigs : Section {
  using Section::Section;

  Setting<double> decay{
      this, "decay", 0.999, from_to(0, 1), "decay of the average"};
  Setting<bool> bias_correction{
      this,
      "bias_correction",
      false,
      "start the average at 0 and correct its bias"};
};

struct GradientScaleConfigs : Section {
  using Section::Section;

  Setting<std::string> scale_strategy{
      this,
      "scale_strategy",
      "avg",
      one_of({"avg", "sum", "customized"}),
      "how gradients of the ranks combine; customized: the sum, of losses that "
      "you scale"};
};

// Numbers of ranks multiply to the size of the world.
struct HybridConfigs : Section {
  using Section::Section;

  Setting<int> dp_degree{
      this,
      "dp_degree",
      -1,
      at_least(-1),
      "copies of the model, each with its own data; -1: as many as the other "
      "degrees leave"};
  Setting<int> pp_degree{this, "pp_degree", 1, at_least(1), "pipeline stages"};
  Setting<int> sharding_degree{
      this,
      "sharding_degree",
      1,
      at_least(1),
      "ranks, each with its own data, that shard the training state"};
  Setting<int> sep_degree{
      this, "sep_degree", 1, at_least(1), "parts of each sequence"};
  Setting<int> mp_degree{
      this,
      "mp_degree",
      1,
      at_least(1),
      "parts of each layer (tensor parallelism)"};
  Setting<int> ep_degree{
      this,
      "ep_degree",
      1,
      at_least(1),
      "ranks, each with its own data, that divide the experts"};
  Setting<std::vector<std::string>> order{
      this,
      "order",
      {"dp", "pp", "sharding", "sep", "mp"},
      one_of({"dp", "pp", "sharding", "sep", "mp", "ep"}),
      "axes from slowest to fastest: the last axis varies fastest, so its "
      "ranks are neighbours"};
  Setting<bool> sync_param{
      this,
      "sync_param",
      false,
      "after each step, broadcast whole parameters from the first rank of a "
      "tensor parallel group"};
};

struct PipelineConfigs : Section {
  using Section::Section;

  Setting<int> accumulate_steps{
      this, "accumulate_steps", 1, at_least(1), "microbatches per batch"};
  Setting<int> micro_batch_size{
      this,
      "micro_batch_size",
      0,
      at_least(0),
      "rows that a microbatch must have; 0: any number"};
  Setting<std::string> schedule_mode{
      this,
      "schedule_mode",
      "1F1B",
      "pipeline schedule: F-then-B, 1F1B, Eager, VPP, ZBH1, ZBVPP"};
  Setting<std::string> schedule_file{
      this,
      "schedule_file",
      "",
      "file with a schedule that argosy plan pipeline saved; replaces "
      "schedule_mode"};
  Setting<std::string> loss_reduction{
      this,
      "loss_reduction",
      "mean",
      one_of({"mean", "sum"}),
      "how the losses of microbatches combine"};
  Setting<bool> delay_scale_loss{
      this,
      "delay_scale_loss",
      false,
      "for mean: divide the gradients once at the end instead of each loss"};
  Setting<bool> p2p_cache_shape{
      this,
      "p2p_cache_shape",
      true,
      "assume that microbatches of equal shape have equal shapes between "
      "stages"};
};

// How gradients reach parameter servers; names and defaults of the reference,
// but half_async and num_threads.
struct ASyncConfigs : Section {
  using Section::Section;

  Setting<int> k_steps{
      this,
      "k_steps",
      -1,
      at_least(-1),
      "above 0: geo mode, workers train on their own and exchange differences "
      "every k_steps steps"};
  Setting<bool> half_async{
      this,
      "half_async",
      false,
      "the threads of a worker step together; workers do not wait for each "
      "other"};
  Setting<int> num_threads{
      this,
      "num_threads",
      1,
      at_least(1),
      "threads of a worker that step together"};
  Setting<int> send_queue_size{
      this,
      "send_queue_size",
      16,
      at_least(1),
      "batches of gradients of a worker that servers may not have yet"};
  Setting<int> max_merge_var_num{
      this,
      "max_merge_var_num",
      1,
      at_least(1),
      "batches of gradients that one message may carry"};
  Setting<bool> independent_recv_thread{
      this,
      "independent_recv_thread",
      false,
      "dense parameters arrive beside the next step instead of before it"};
  Setting<int> min_send_grad_num_before_recv{
      this,
      "min_send_grad_num_before_recv",
      1,
      at_least(1),
      "steps between two pulls of dense parameters"};
  Setting<bool> launch_barrier{
      this, "launch_barrier", true, "init_worker() waits for all workers"};
};

// What servers hold of a model that distributed_model() takes.
struct PsConfigs : Section {
  using Section::Section;

  Setting<std::vector<std::string>> parameters{
      this,
      "parameters",
      {},
      "parameters on servers, each by a regular expression of its whole name; "
      "workers keep the others and average their gradients; empty: all are on "
      "servers"};
  Setting<std::string> sparse_optimizer{
      this,
      "sparse_optimizer",
      "same",
      one_of(
          {"same",
           "naive",
           "adagrad",
           "std_adagrad",
           "adagrad_v2",
           "adam",
           "shared_adam"}),
      "how servers update rows of embeddings; same: as the optimizer does"};
  Setting<double> initial_range{
      this,
      "initial_range",
      1e-4,
      at_least(0),
      "rows of embeddings begin with values between -initial_range and it"};
  Setting<bool> init_in_server{
      this,
      "init_in_server",
      true,
      "rows of embeddings begin with what servers draw; false: with the "
      "module's values, those of the first worker"};
  Setting<int> shard_num{
      this,
      "shard_num",
      0,
      at_least(0),
      "parts of each embedding, at least as many as servers; each is a file "
      "of a save; 0: about 16 for each server"};
  Setting<int> cache_rows{
      this,
      "cache_rows",
      0,
      at_least(0),
      "rows of each embedding that a worker keeps; not in sync mode"};
  Setting<int> cache_steps{
      this,
      "cache_steps",
      1,
      at_least(0),
      "steps for which a worker takes a row that it keeps"};
};

struct ShardingConfigs : Section {
  using Section::Section;

  Setting<int> stage{
      this,
      "stage",
      1,
      Range{.least = 1, .most = 3},
      "1: optimizer state; 2: gradients as well; 3: parameters as well"};
  Setting<double> comm_buffer_size_MB{
      this,
      "comm_buffer_size_MB",
      8,
      at_least(0),
      "size of communication buffers in stages 1 and 2"};
  Setting<std::vector<std::string>> units{
      this,
      "units",
      {},
      "stage 3: modules to gather as one; empty: the entries of module lists"};
  Setting<double> segment_size_KB{
      this,
      "segment_size_KB",
      256,
      at_least(0),
      "stage 3: smaller modules join their neighbours"};
  Setting<std::vector<std::string>> exclude_layer{
      this,
      "exclude_layer",
      {},
      "stage 3: modules that stay whole on every rank"};
  Setting<bool> offload{
      this, "offload", false, "keep optimizer state in a file between steps"};
  Setting<bool> offload_grads{
      this,
      "offload_grads",
      false,
      "stages 2 and 3: keep gradients in the file as well"};
  Setting<bool> offload_params{
      this,
      "offload_params",
      false,
      "stage 3: keep parameters in the file as well"};
  Setting<std::string> offload_path{
      this, "offload_path", "./offload", "folder of the file"};
  Setting<double> offload_cpu_size_MB{
      this,
      "offload_cpu_size_MB",
      0,
      at_least(0),
      "host-memory budget for optimizer state"};
};

} // namespace argosy::fleet
