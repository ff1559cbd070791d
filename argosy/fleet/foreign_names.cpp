#include "argosy/fleet/foreign_names.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace argosy::fleet {

namespace {

using nlohmann::json;

constexpr char kAny[] = "*";
constexpr char kSwitch[] = "[true, false]";
constexpr char kOff[] = "[false]";
constexpr char kNone[] = "[[]]";

constexpr char kNoTables[] =
    "set ps_configs, or make tables with ps::Session::add_table(); see "
    "docs/parameter-server.md";
constexpr char kNoFederation[] = "there are no coordinators; leave it out";
constexpr char kZero[] = "[0, false]";
constexpr char kNoGpus[] = "all ranks compute on CPUs; leave it out";
constexpr char kSentAtOnce[] =
    "gradients are sent as soon as those before them have arrived";
constexpr char kNoCudnn[] = "there is no cuDNN on the CPU; leave it out";
constexpr char kNoNames[] =
    "activations have no names; set amp_configs.custom_black_list, or run the "
    "layer inside optim::AutoCast(false)";
constexpr char kBfloat16[] =
    "LibTorch has no float16 matrix products on the CPU; set "
    "amp_configs.use_pure_bf16";
constexpr char kSemiAuto[] =
    "call parallelize() instead; see docs/semi-auto.md";
constexpr char kSegments[] =
    "set sharding_configs.units and segment_size_KB, which say what stage 3 "
    "gathers as one";
constexpr char kPerformance[] = "it does not change what is computed";
constexpr char kTimers[] =
    "step meters and traces have times; see docs/observe.md";
constexpr char kEqual[] =
    "ranks of a tensor parallel group compute equal gradients and state, bit "
    "for bit; leave it out";

} // namespace

const std::vector<Alias>& aliases() {
  static const std::vector<Alias> kAll = {
      {"amp_configs.use_master_grad", "amp_configs.use_main_grad"},
      {"tensor_parallel_configs.tensor_parallel_degree",
       "hybrid_configs.mp_degree"},
      {"sharding_configs.sharding_degree", "hybrid_configs.sharding_degree"},
      {"sharding_configs.mp_degree", "hybrid_configs.mp_degree"},
      {"sharding_configs.dp_degree", "hybrid_configs.dp_degree"},
      {"sharding_configs.pp_degree", "hybrid_configs.pp_degree"},
      {"sharding_configs.optimize_offload", "sharding_configs.offload"},
      {"hybrid_configs.mp_configs.sync_param", "hybrid_configs.sync_param"},
      {"hybrid_configs.pp_configs.delay_scale_loss",
       "pipeline_configs.delay_scale_loss"},
      {"hybrid_configs.sharding_configs.comm_buffer_size_MB",
       "sharding_configs.comm_buffer_size_MB"},
  };
  return kAll;
}

const std::vector<ForeignName>& foreign_names() {
  static const std::vector<ForeignName> kAll = {
      // Kinds of jobs.
      {"mode",
       R"(["COLLECTIVE", "PS"])",
       "init() and the environment say whether a job has servers; leave it "
       "out"},
      {"a_sync_configs.thread_pool_size", kAny, kPerformance},
      {"a_sync_configs.send_wait_times", kAny, kSentAtOnce},
      {"a_sync_configs.runtime_split_send_recv", kSwitch, kPerformance},
      {"a_sync_configs.heter_worker_device_guard",
       R"(["cpu", "CPU"])",
       "all ranks compute on CPUs; leave it out"},
      {"a_sync_configs.lr_decay_steps",
       "[10]",
       "change the optimizer's rate with a scheduler: step() tells the "
       "servers"},
      {"a_sync_configs.use_ps_gpu", kZero, kNoGpus},
      {"a_sync_configs.use_gpu_graph", kZero, kNoGpus},
      {"is_fl_ps_mode", kOff, kNoFederation},
      {"with_coordinator", kOff, kNoFederation},
      {"adam_d2sum", kOff, kNoTables},
      {"trainer_desc_configs", kOff, "there are no trainers of datasets"},
      {"fs_client_param", kOff, "give saves the URL of a folder"},
      {"sparse_table_configs", kOff, kNoTables},
      {"fleet_desc_configs", kOff, kNoTables},
      {"downpour_table_param", kOff, kNoTables},
      {"elastic", kOff, "start the job with argosy run --max-restarts"},
      {"heter_ccl_mode", kOff, "all ranks compute on CPUs; leave it out"},
      {"split_data",
       "[true]",
       "give DistributedBatchSampler num_replicas = 1 instead"},
      // Ways to be parallel.
      {"pipeline", kOff, "set hybrid_configs.pp_degree"},
      {"tensor_parallel", kOff, "set hybrid_configs.mp_degree"},
      {"tensor_parallel_configs.tensor_init_seed",
       "[-1]",
       "call model_parallel_random_seed() before you make the layers"},
      {"auto", kOff, kSemiAuto},
      {"semi_auto", kOff, kSemiAuto},
      {"auto_search", kOff, kSemiAuto},
      {"sharding_configs.sharding_segment_strategy",
       R"(["segment_broadcast_MB"])",
       kSegments},
      {"sharding_configs.segment_broadcast_MB", "[32, 32.0]", kSegments},
      {"sharding_configs.segment_anchors", kNone, kSegments},
      {"sharding_configs.hybrid_dp", kOff, "set hybrid_configs.dp_degree"},
      {"sharding_configs.gradient_merge_acc_step",
       "[1]",
       "set gradient_merge and gradient_merge_configs.k_steps"},
      {"sharding_configs._dp_as_optimizer_sharding",
       kOff,
       "set sharding, which shards over all ranks with their own data"},
      {"sharding_configs.pp_allreduce_in_optimize", kSwitch, kPerformance},
      {"sharding_configs.optimize_cast", kSwitch, kPerformance},
      {"sharding_configs.use_calc_stream", kSwitch, kPerformance},
      {"sharding_configs.enable_tuning", kOff, kSegments},
      {"hybrid_configs.enable_optimizer_timer", kOff, kTimers},
      {"hybrid_configs.mp_configs.sync_grad", kOff, kEqual},
      {"hybrid_configs.mp_configs.sync_moment", kOff, kEqual},
      {"hybrid_configs.mp_configs.sync_mode",
       R"(["broadcast"])",
       "hybrid_configs.sync_param broadcasts; leave it out"},
      {"hybrid_configs.mp_configs.sync_param_name",
       kNone,
       "hybrid_configs.sync_param broadcasts all whole parameters"},
      {"hybrid_configs.mp_configs.mp_async_allreduce", kSwitch, kPerformance},
      {"hybrid_configs.mp_configs.mp_skip_c_identity",
       kOff,
       "leave it out: a layer without it would lose a sum in backward"},
      {"hybrid_configs.mp_configs.mp_fused_linear_param_grad_add",
       kOff,
       "set amp_configs.use_main_grad"},
      {"hybrid_configs.mp_configs.need_broadcast_data",
       kOff,
       "samplers give the ranks of a tensor parallel group the same samples; "
       "for data of other sources call fleet::utils::broadcast_input_data()"},
      {"hybrid_configs.mp_configs.recompute_allgather", kSwitch, kPerformance},
      {"hybrid_configs.mp_configs.sp_async_reduce_scatter",
       kSwitch,
       kPerformance},
      {"hybrid_configs.pp_configs.dp_comm_overlap", kSwitch, kPerformance},
      {"hybrid_configs.pp_configs.sharding_comm_overlap",
       kSwitch,
       kPerformance},
      {"hybrid_configs.pp_configs.overlap_p2p_comm", kSwitch, kPerformance},
      {"hybrid_configs.pp_configs.use_batch_p2p_comm", kSwitch, kPerformance},
      {"hybrid_configs.pp_configs.clear_every_step_cache",
       kSwitch,
       kPerformance},
      {"hybrid_configs.pp_configs.enable_timer", kOff, kTimers},
      {"hybrid_configs.pp_configs.profiling", kOff, kTimers},
      {"hybrid_configs.pp_configs.release_gradients",
       kOff,
       "set sharding_configs.stage to 2, which keeps only this rank's part of "
       "the gradients"},
      {"hybrid_configs.pp_configs.best_unbalanced_scheduler",
       kOff,
       "write a schedule with argosy plan pipeline, and set "
       "pipeline_configs.schedule_file"},
      {"hybrid_configs.sharding_configs.tensor_fusion", kSwitch, kPerformance},
      {"hybrid_configs.sharding_configs.comm_overlap", kSwitch, kPerformance},
      {"hybrid_configs.sharding_configs.split_param", kSwitch, kPerformance},
      {"hybrid_configs.sharding_configs.fuse_optimizer", kSwitch, kPerformance},
      {"hybrid_configs.sharding_configs.use_reduce_avg", kSwitch, kPerformance},
      {"hybrid_configs.sharding_configs.free_grads_in_comm",
       kSwitch,
       kPerformance},
      {"hybrid_configs.sharding_configs.accumulate_steps",
       "[1]",
       "set pipeline_configs.accumulate_steps or gradient_merge"},
      {"hybrid_configs.sharding_configs.release_gradients",
       kOff,
       "set sharding_configs.stage to 2"},
      {"pipeline_configs.enable_partial_send_recv", kSwitch, kPerformance},
      // Precision and memory.
      {"amp_configs.custom_black_varnames", kNone, kNoNames},
      {"amp_configs.use_pure_fp16", kOff, kBfloat16},
      {"amp_configs.use_fp16_guard", kSwitch, kPerformance},
      {"amp_configs.use_optimizer_fp16",
       kOff,
       "optimizers keep float32 master weights; leave it out"},
      {"amp_configs.dtype", R"(["bfloat16"])", kBfloat16},
      {"amp_configs.level",
       R"(["O1"])",
       "set amp_configs.use_pure_bf16 for O2"},
      {"recompute_configs.checkpoint_shape", kNone, "leave it out"},
      {"recompute_configs.enable_tuning",
       kOff,
       "name the modules in recompute_configs.checkpoints"},
      {"recompute_configs.refined_ops_patterns",
       kNone,
       "name the modules in recompute_configs.checkpoints"},
      {"asp", kOff, "there is no training with 2:4 sparsity; leave it out"},
      {"qat", kOff, "there is no training for quantization; leave it out"},
      {"qat_configs", kOff, "there is no training for quantization"},
      // Communication.
      {"gradient_scale_configs.scale_gradient", kSwitch, kPerformance},
      {"use_hierarchical_allreduce", kSwitch, kPerformance},
      {"hierarchical_allreduce_inter_nranks",
       "[1]",
       "ranks find out who shares a host, and reduce there first; leave it "
       "out"},
      {"sync_nccl_allreduce", kSwitch, kPerformance},
      {"nccl_comm_num", "[1]", "there are no rings; leave it out"},
      {"calc_comm_same_stream", kSwitch, kPerformance},
      {"fuse_grad_size_in_TFLOPS", "[50, 50.0]", "set fuse_grad_size_in_MB"},
      {"fuse_grad_size_in_num", "[8]", "set fuse_grad_size_in_MB"},
      {"fuse_grad_merge", kSwitch, kPerformance},
      // The graph compiler and GPUs.
      {"without_graph_optimization", kSwitch, kPerformance},
      {"build_strategy", kAny, kPerformance},
      {"execution_strategy", kAny, kPerformance},
      {"cudnn_exhaustive_search", kOff, kNoCudnn},
      {"cudnn_batchnorm_spatial_persistent", kOff, kNoCudnn},
      {"conv_workspace_size_limit", "[512]", kNoCudnn},
  };
  return kAll;
}

namespace {

bool is_inside(std::string_view path, std::string_view section) {
  return path.size() > section.size() && path.starts_with(section) &&
      path[section.size()] == '.';
}

// The paths of all foreign names and aliases.
std::vector<std::string_view> all_paths() {
  std::vector<std::string_view> paths;
  for (const ForeignName& each : foreign_names()) {
    paths.emplace_back(each.path);
  }
  for (const Alias& each : aliases()) {
    paths.emplace_back(each.path);
  }
  return paths;
}

} // namespace

std::optional<std::string> alias_of(std::string_view path) {
  for (const Alias& each : aliases()) {
    if (path == each.path) {
      return each.ours;
    }
  }
  return std::nullopt;
}

const ForeignName* foreign_name(std::string_view path) {
  for (const ForeignName& each : foreign_names()) {
    if (path == each.path || is_inside(path, each.path)) {
      return &each;
    }
  }
  return nullptr;
}

bool is_foreign_section(std::string_view path) {
  const auto paths = all_paths();
  return std::ranges::any_of(
      paths, [&](std::string_view each) { return is_inside(each, path); });
}

std::vector<std::string> foreign_names_in(std::string_view prefix) {
  std::set<std::string> names;
  for (const std::string_view path : all_paths()) {
    if (path.starts_with(prefix)) {
      const auto rest = path.substr(prefix.size());
      names.emplace(rest.substr(0, rest.find('.')));
    }
  }
  return {names.begin(), names.end()};
}

bool asks_for_nothing(const ForeignName& name, const json& value) {
  if (std::string_view(name.harmless) == kAny) {
    return true;
  }
  const json harmless = json::parse(name.harmless);
  return std::ranges::find(harmless, value) != harmless.end();
}

std::optional<std::string> hint_for(std::string_view path) {
  static const std::map<std::string_view, const char*> kHints = {
      {"moe_degree",
       "hybrid_configs.ep_degree is the number of ranks that divide the "
       "experts"},
      {"expert_parallel_degree", "it is hybrid_configs.ep_degree"},
      {"tp_degree", "it is hybrid_configs.mp_degree"},
      {"tensor_parallel_degree", "it is hybrid_configs.mp_degree"},
      {"pipeline_parallel_degree", "it is hybrid_configs.pp_degree"},
      {"data_parallel_degree", "it is hybrid_configs.dp_degree"},
      {"fsdp_degree", "it is hybrid_configs.sharding_degree"},
      {"cp_degree", "hybrid_configs.sep_degree divides sequences"},
      {"sp_degree", "hybrid_configs.sep_degree divides sequences"},
      {"context_parallel_degree",
       "hybrid_configs.sep_degree divides sequences"},
      {"sharding_stage", "it is sharding_configs.stage"},
      {"offload", "it is sharding_configs.offload"},
      {"checkpoints", "it is recompute_configs.checkpoints"},
  };
  const auto dot = path.rfind('.');
  const auto found =
      kHints.find(dot == path.npos ? path : path.substr(dot + 1));
  return found == kHints.end() ? std::nullopt
                               : std::optional<std::string>(found->second);
}

} // namespace argosy::fleet
