#include "argosy/fleet/strategy_check.h"

#include <string_view>

#include "argosy/common/error.h"
#include "argosy/fleet/strategy.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::fleet {

namespace {

constexpr char kSent[] = "each decides how gradients are sent";
constexpr char kNotSent[] =
    "local SGD sends parameters, so there are no gradients to compress";
constexpr char kReplaced[] = "each replaces the optimizer";
constexpr char kAveraged[] =
    "local SGD works with SGD only, with or without momentum";
constexpr char kWhole[] =
    "it needs whole gradients, and ranks have parts of them";
constexpr char kNorms[] =
    "it needs the norms of whole parameters, and ranks have parts of them";
constexpr char kMeans[] =
    "parameters differ by rank between two averages of local SGD, and so would "
    "their moving averages";

// "sharding" stands for all ways to turn it on; see is_sharded().
bool is_on(const DistributedStrategy& strategy, std::string_view name) {
  if (name == "sharding") {
    return strategy.is_sharded();
  }
  for (const AnySetting* setting : strategy.settings()) {
    if (setting->path() == name) {
      return std::get<bool>(setting->value());
    }
  }
  throw InternalError(str("[fleet.strategy] no switch ", name));
}

// LARS and LAMB need the norm of each whole parameter, which tensor parallel
// ranks do not hold.
void check_layers_are_whole(const DistributedStrategy& strategy) {
  const int parts = strategy.hybrid_configs.mp_degree;
  for (const char* name : {"lars", "lamb"}) {
    ARGOSY_CHECK(
        parts == 1 || !is_on(strategy, name),
        "[fleet.strategy] {} and hybrid_configs.mp_degree {} exclude each "
        "other: {}",
        name,
        parts,
        kNorms);
  }
}

// Rules that a pair of switches cannot express.
void check_configs(const DistributedStrategy& strategy) {
  check_layers_are_whole(strategy);
  // Called only to reject an unknown schedule_mode.
  pipeline::make_schedule(strategy.pipeline_configs.schedule_mode, 1, 1);
  ARGOSY_CHECK(
      !strategy.amp || !strategy.amp_configs.use_main_grad ||
          strategy.amp_configs.use_pure_bf16,
      "[fleet.strategy] amp_configs.use_main_grad needs "
      "amp_configs.use_pure_bf16: gradients of float32 weights are float32");
  ARGOSY_CHECK(
      !strategy.dgc || !strategy.dgc_configs.sparsity.get().empty(),
      "[fleet.strategy] dgc_configs.sparsity is [], expected a list of at "
      "least one");
  ARGOSY_CHECK(
      !strategy.dgc || !strategy.grad_clip ||
          strategy.grad_clip_configs.by.get() == "norm",
      "[fleet.strategy] dgc and grad_clip by value exclude each other: dgc "
      "clips what a rank adds to its momentum, by its norm");
  const bool local = strategy.localsgd || strategy.adaptive_localsgd;
  ARGOSY_CHECK(
      !local || strategy.gradient_scale_configs.scale_strategy.get() == "avg",
      "[fleet.strategy] {} and gradient_scale_configs.scale_strategy {} "
      "exclude each other: local SGD sends no gradients to sum",
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
      {"dgc",
       "amp",
       "dgc keeps gradients for later steps, when the loss has another scale"},
      {"dgc", "localsgd", kNotSent},
      {"dgc", "adaptive_localsgd", kNotSent},
      {"fp16_allreduce", "localsgd", kNotSent},
      {"fp16_allreduce", "adaptive_localsgd", kNotSent},
      {"bf16_allreduce", "localsgd", kNotSent},
      {"bf16_allreduce", "adaptive_localsgd", kNotSent},
      {"power_sgd", "localsgd", kNotSent},
      {"power_sgd", "adaptive_localsgd", kNotSent},
      {"power_sgd",
       "amp",
       "power_sgd keeps its error for later steps, when the loss has another "
       "scale"},
      {"lars", "localsgd", kAveraged},
      {"lars", "adaptive_localsgd", kAveraged},
      {"lamb", "localsgd", kAveraged},
      {"lamb", "adaptive_localsgd", kAveraged},
      {"dgc", "sharding", kWhole},
      {"fp16_allreduce", "sharding", kWhole},
      {"bf16_allreduce", "sharding", kWhole},
      {"power_sgd", "sharding", kWhole},
      {"lars", "sharding", kNorms},
      {"lamb", "sharding", kNorms},
      {"localsgd", "sharding", "local SGD averages whole parameters"},
      {"adaptive_localsgd", "sharding", "local SGD averages whole parameters"},
      {"ema", "localsgd", kMeans},
      {"ema", "adaptive_localsgd", kMeans},
  };
  return kAll;
}

void check_strategy(const DistributedStrategy& strategy) {
  for (const Exclusion& each : exclusions()) {
    ARGOSY_CHECK(
        !is_on(strategy, each.one) || !is_on(strategy, each.other),
        "[fleet.strategy] {} and {} exclude each other: {}",
        each.one,
        each.other,
        each.why);
  }
  check_configs(strategy);
}

} // namespace argosy::fleet
