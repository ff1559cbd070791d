#include "argosy/fleet/ps_strategy.h"

#include <algorithm>
#include <array>

#include "argosy/fleet/strategy.h"

namespace argosy::fleet {

namespace {

// What changes nothing that servers see: the first ones in every job, the
// others where workers reduce gradients among themselves.
constexpr int kNumOfWorker = 2;
constexpr std::array<std::string_view, 6> kAlways = {
    "a_sync",
    "fuse_all_reduce_ops", // by default
    "find_unused_parameters",
    "sync_batch_norm",
    "fp16_allreduce",
    "bf16_allreduce"};

ps::Mode mode_of(const DistributedStrategy& strategy) {
  if (!strategy.a_sync) {
    return ps::Mode::Sync;
  }
  if (strategy.a_sync_configs.k_steps > 0) {
    return ps::Mode::Geo;
  }
  return strategy.a_sync_configs.half_async ? ps::Mode::HalfAsync
                                            : ps::Mode::Async;
}

} // namespace

ps::CommunicatorOptions communicator_of(const DistributedStrategy& strategy) {
  const ASyncConfigs& configs = strategy.a_sync_configs;
  return {
      .mode = mode_of(strategy),
      .send_queue_size = configs.send_queue_size,
      .max_merge_var_num = configs.max_merge_var_num,
      .num_threads = configs.num_threads,
      .k_steps = std::max(1, configs.k_steps.get())};
}

std::vector<std::string> settings_without_servers(
    const DistributedStrategy& strategy, bool hybrid) {
  const auto end = hybrid ? kAlways.end() : kAlways.begin() + kNumOfWorker;
  std::vector<std::string> found;
  for (const AnySetting* setting : strategy.settings()) {
    const bool* on = std::get_if<bool>(&setting->value());
    const std::string& path = setting->path();
    const bool is_switch = path.find('.') == std::string::npos;
    const bool is_degree =
        path.starts_with("hybrid_configs.") && !setting->is_default();
    if (is_degree ||
        (on != nullptr && *on && is_switch &&
         std::find(kAlways.begin(), end, path) == end)) {
      found.push_back(path);
    }
  }
  return found;
}

} // namespace argosy::fleet
