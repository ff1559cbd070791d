#include "argosy/fleet/strategy_check.h"

#include <algorithm>
#include <string_view>

#include "argosy/common/error.h"
#include "argosy/fleet/problems.h"
#include "argosy/fleet/strategy.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::fleet {

namespace {

constexpr char kSent[] = "each decides how gradients are sent";
constexpr char kNotSent[] =
    "local SGD sends parameters, so there are no gradients to compress";
constexpr char kReplaced[] = "each replaces the optimizer";

// "sharding" stands for all ways to turn it on; see is_sharded().
bool is_on(const DistributedStrategy& strategy, std::string_view name) {
  if (name == "sharding") {
    return strategy.is_sharded();
  }
  const AnySetting* found = strategy.find(name);
  ARGOSY_ASSERT(found, "[fleet.strategy] no switch {}", name);
  return std::get<bool>(found->value());
}

void check_degrees(const DistributedStrategy& strategy, Problems& problems) {
  const HybridConfigs& hybrid = strategy.hybrid_configs;
  problems.require(
      !strategy.sharding || hybrid.sharding_degree > 1 ||
          hybrid.dp_degree == -1,
      "sharding with hybrid_configs.dp_degree {} would shard over one rank: "
      "leave dp_degree out to shard over all ranks with their own data, or set "
      "hybrid_configs.sharding_degree to the number of shards",
      hybrid.dp_degree.get());
}

void check_schedule(const DistributedStrategy& strategy, Problems& problems) {
  try {
    // Called only to reject an unknown schedule_mode.
    pipeline::make_schedule(strategy.pipeline_configs.schedule_mode, 1, 1);
  } catch (const InvalidArgument& error) {
    problems.add(error);
  }
}

void check_recompute(const DistributedStrategy& strategy, Problems& problems) {
  problems.require(
      !strategy.recompute ||
          !strategy.recompute_configs.checkpoints.get().empty(),
      "recompute needs recompute_configs.checkpoints: the names of the modules "
      "to run again");
}

// Compressions that keep what they do not send.
void check_kept_errors(
    const DistributedStrategy& strategy, Problems& problems) {
  if (!strategy.dgc && !strategy.power_sgd) {
    return;
  }
  const std::string name = strategy.dgc ? "dgc" : "power_sgd";
  const int stage = strategy.is_sharded() ? strategy.sharding_configs.stage : 0;
  problems.require(
      stage < 2,
      "{} and sharding_configs.stage {} exclude each other: it keeps an error "
      "of the size of all gradients on every rank, which is what stage 2 "
      "saves; set stage 1, or fp16_allreduce or bf16_allreduce",
      name,
      stage);
}

void check_servers(const DistributedStrategy& strategy, Problems& problems) {
  const ASyncConfigs& configs = strategy.a_sync_configs;
  problems.require(
      !strategy.a_sync || !configs.half_async || configs.k_steps <= 0,
      "a_sync_configs.half_async and k_steps {} exclude each other: each is a "
      "mode",
      configs.k_steps.get());
  problems.require(
      strategy.a_sync || strategy.ps_configs.cache_rows == 0,
      "ps_configs.cache_rows is {}, but without a_sync each step sees the "
      "newest rows",
      strategy.ps_configs.cache_rows.get());
}

// Rules that a pair of switches cannot express.
void check_configs(const DistributedStrategy& strategy, Problems& problems) {
  check_degrees(strategy, problems);
  check_schedule(strategy, problems);
  check_recompute(strategy, problems);
  check_servers(strategy, problems);
  problems.require(
      !strategy.amp || !strategy.amp_configs.use_main_grad ||
          strategy.amp_configs.use_pure_bf16,
      "amp_configs.use_main_grad needs amp_configs.use_pure_bf16: gradients of "
      "float32 weights are float32");
  problems.require(
      !strategy.dgc || !strategy.dgc_configs.sparsity.get().empty(),
      "dgc_configs.sparsity is [], expected a list of at least one");
  problems.require(
      !strategy.dgc || !strategy.grad_clip ||
          strategy.grad_clip_configs.by.get() == "norm",
      "dgc and grad_clip by value exclude each other: dgc clips what a rank "
      "adds to its momentum, by its norm");
  check_kept_errors(strategy, problems);
  const bool local = strategy.localsgd || strategy.adaptive_localsgd;
  problems.require(
      !local || strategy.gradient_scale_configs.scale_strategy.get() == "avg",
      "{} and gradient_scale_configs.scale_strategy {} exclude each other: "
      "local SGD sends no gradients to sum",
      strategy.localsgd ? "localsgd" : "adaptive_localsgd",
      strategy.gradient_scale_configs.scale_strategy.get());
}

} // namespace

// A table instead of conditions, so that a test can try every pair.
const std::vector<Exclusion>& exclusions() {
  static const std::vector<Exclusion> kAll = {
      {"localsgd",
       "adaptive_localsgd",
       "each decides when parameters are averaged"},
      {"lars", "lamb", kReplaced},
      {"dgc", "lars", kReplaced},
      {"dgc", "lamb", kReplaced},
      {"dgc", "fp16_allreduce", kSent},
      {"dgc", "bf16_allreduce", kSent},
      {"dgc", "power_sgd", kSent},
      {"fp16_allreduce", "bf16_allreduce", kSent},
      {"fp16_allreduce", "power_sgd", kSent},
      {"bf16_allreduce", "power_sgd", kSent},
      {"dgc", "localsgd", kNotSent},
      {"dgc", "adaptive_localsgd", kNotSent},
      {"fp16_allreduce", "localsgd", kNotSent},
      {"fp16_allreduce", "adaptive_localsgd", kNotSent},
      {"bf16_allreduce", "localsgd", kNotSent},
      {"bf16_allreduce", "adaptive_localsgd", kNotSent},
      {"power_sgd", "localsgd", kNotSent},
      {"power_sgd", "adaptive_localsgd", kNotSent},
  };
  return kAll;
}

std::vector<std::string> settings_of_switches_that_are_off(
    const DistributedStrategy& strategy) {
  std::vector<std::string> found;
  for (const AnySetting* setting : strategy.settings()) {
    const std::string path = setting->path();
    const std::size_t end = path.find("_configs.");
    if (setting->is_default() || end == std::string::npos ||
        setting == &strategy.a_sync_configs.launch_barrier) {
      continue; // the last one counts in every mode
    }
    const std::string name = path.substr(0, end);
    // hybrid_configs and pipeline_configs have no switch.
    const bool has_switch = std::ranges::any_of(
        strategy.entries(),
        [&](const Entry* each) { return each->name() == name; });
    if (has_switch && !is_on(strategy, name)) {
      found.push_back(path);
    }
  }
  return found;
}

void check_strategy(const DistributedStrategy& strategy) {
  Problems problems(strategy.source());
  for (const Exclusion& each : exclusions()) {
    problems.require(
        !is_on(strategy, each.one) || !is_on(strategy, each.other),
        "{} and {} exclude each other: {}",
        each.one,
        each.other,
        each.why);
  }
  for (const WithoutEffect& each : settings_without_effect()) {
    const AnySetting& setting = *strategy.find(each.setting);
    problems.require(
        setting.is_default() || !each.is_idle(strategy),
        "{} is {} and has no effect: {}",
        each.setting,
        json_text(setting.value()),
        each.why);
  }
  check_configs(strategy, problems);
  problems.raise();
}

} // namespace argosy::fleet
