#include "argosy/fleet/strategy.h"
#include "argosy/fleet/strategy_check.h"

namespace argosy::fleet {

namespace {

constexpr char kStage3[] =
    "it belongs to stage 3; set sharding_configs.stage to 3";
constexpr char kOffload[] = "it needs sharding_configs.offload";
constexpr char kOwnBuffers[] =
    "sharding has buffers of its own; set sharding_configs.comm_buffer_size_MB "
    "for stages 1 and 2, units or segment_size_KB for stage 3";
constexpr char kNoGradients[] = "local SGD sends no gradients";
constexpr char kNoBuckets[] =
    "there are no buckets without fuse_all_reduce_ops";

constexpr char kNoQueue[] =
    "batches wait in a queue in async mode alone: set neither k_steps nor "
    "half_async";
constexpr char kGeo[] =
    "in geo mode workers exchange dense parameters every k_steps steps";

} // namespace

// A table instead of conditions, so that the documentation can list it.
const std::vector<WithoutEffect>& settings_without_effect() {
  using Strategy = DistributedStrategy;
  static constexpr auto below_2 = [](const Strategy& s) {
    return s.is_sharded() && s.sharding_configs.stage < 2;
  };
  static constexpr auto below_3 = [](const Strategy& s) {
    return s.is_sharded() && s.sharding_configs.stage < 3;
  };
  static constexpr auto by_module = [](const Strategy& s) {
    return s.is_sharded() && s.sharding_configs.stage == 3 &&
        s.sharding_configs.exclude_layer.get().empty();
  };
  static constexpr auto not_offloaded = [](const Strategy& s) {
    return s.is_sharded() && !s.sharding_configs.offload;
  };
  static constexpr auto sharded = [](const Strategy& s) {
    return s.is_sharded();
  };
  static constexpr auto local = [](const Strategy& s) {
    return s.localsgd || s.adaptive_localsgd;
  };
  static constexpr auto not_fused = [](const Strategy& s) {
    return !s.fuse_all_reduce_ops;
  };
  static constexpr auto by_file = [](const Strategy& s) {
    return !s.pipeline_configs.schedule_file.get().empty();
  };
  static constexpr auto geo = [](const Strategy& s) {
    return s.a_sync && s.a_sync_configs.k_steps > 0;
  };
  static constexpr auto no_queue = [](const Strategy& s) {
    return s.a_sync &&
        (s.a_sync_configs.k_steps > 0 || s.a_sync_configs.half_async);
  };
  static constexpr auto no_threads = [](const Strategy& s) {
    return s.a_sync && !s.a_sync_configs.half_async;
  };
  static constexpr auto no_cache = [](const Strategy& s) {
    return s.ps_configs.cache_rows == 0;
  };
  static const std::vector<WithoutEffect> kAll = {
      {"sharding_configs.units", below_3, kStage3},
      {"sharding_configs.segment_size_KB", below_3, kStage3},
      {"sharding_configs.exclude_layer", below_3, kStage3},
      {"sharding_configs.offload_params", below_3, kStage3},
      {"sharding_configs.offload_grads",
       below_2,
       "stage 1 keeps whole gradients; set sharding_configs.stage to 2 or 3"},
      {"sharding_configs.comm_buffer_size_MB",
       by_module,
       "stage 3 communicates module by module; set units or segment_size_KB"},
      {"sharding_configs.offload_grads", not_offloaded, kOffload},
      {"sharding_configs.offload_params", not_offloaded, kOffload},
      {"sharding_configs.offload_path", not_offloaded, kOffload},
      {"sharding_configs.offload_cpu_size_MB", not_offloaded, kOffload},
      {"fuse_all_reduce_ops", sharded, kOwnBuffers},
      {"fuse_grad_size_in_MB", sharded, kOwnBuffers},
      {"last_comm_group_size_MB", sharded, kOwnBuffers},
      {"fuse_all_reduce_ops", local, kNoGradients},
      {"fuse_grad_size_in_MB", local, kNoGradients},
      {"last_comm_group_size_MB", local, kNoGradients},
      {"fuse_grad_size_in_MB", not_fused, kNoBuckets},
      {"last_comm_group_size_MB", not_fused, kNoBuckets},
      {"pipeline_configs.schedule_mode",
       by_file,
       "pipeline_configs.schedule_file replaces it"},
      {"a_sync_configs.send_queue_size", no_queue, kNoQueue},
      {"a_sync_configs.max_merge_var_num", no_queue, kNoQueue},
      {"a_sync_configs.num_threads",
       no_threads,
       "it needs a_sync_configs.half_async"},
      {"a_sync_configs.independent_recv_thread", geo, kGeo},
      {"a_sync_configs.min_send_grad_num_before_recv", geo, kGeo},
      {"ps_configs.cache_steps", no_cache, "it needs ps_configs.cache_rows"},
  };
  return kAll;
}

} // namespace argosy::fleet
