// Strategies: settings, JSON, the table, what excludes what; shards of files.

#include "argosy/fleet/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/fleet/file_shard.h"
#include "argosy/fleet/foreign_names.h"
#include "argosy/fleet/prototxt.h"
#include "argosy/fleet/strategy_check.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using argosy::testing::refusal;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal_of_json(const std::string& text) {
  return refusal([&] { DistributedStrategy::from_json(text); });
}

// ---- Defaults and assignment ------------------------------------------------

TEST(Strategy, HasThePublishedDefaults) {
  const DistributedStrategy strategy;
  EXPECT_FALSE(strategy.amp);
  EXPECT_EQ(strategy.amp_configs.init_loss_scaling, 32768);
  EXPECT_EQ(strategy.amp_configs.incr_every_n_steps, 1000);
  EXPECT_EQ(strategy.amp_configs.decr_every_n_nan_or_inf, 2);
  EXPECT_EQ(strategy.amp_configs.incr_ratio, 2);
  EXPECT_EQ(strategy.amp_configs.decr_ratio, 0.8);
  EXPECT_TRUE(strategy.amp_configs.use_dynamic_loss_scaling);
  EXPECT_FALSE(strategy.amp_configs.use_pure_bf16);
  EXPECT_EQ(strategy.gradient_merge_configs.k_steps, 1);
  EXPECT_TRUE(strategy.gradient_merge_configs.avg);
  EXPECT_EQ(strategy.localsgd_configs.k_steps, 1);
  EXPECT_EQ(strategy.localsgd_configs.begin_step, 1);
  EXPECT_EQ(strategy.adaptive_localsgd_configs.init_k_steps, 1);
  EXPECT_EQ(strategy.adaptive_localsgd_configs.begin_step, 1);
  EXPECT_EQ(strategy.dgc_configs.rampup_begin_step, 0);
  EXPECT_EQ(strategy.dgc_configs.rampup_step, 1);
  EXPECT_EQ(strategy.dgc_configs.sparsity.get(), std::vector<double>{0.999});
  EXPECT_EQ(strategy.lars_configs.lars_coeff, 0.001);
  EXPECT_EQ(strategy.lars_configs.lars_weight_decay, 0.0005);
  EXPECT_EQ(strategy.lars_configs.epsilon, 0);
  EXPECT_EQ(strategy.lamb_configs.lamb_weight_decay, 0.01);
  EXPECT_TRUE(strategy.lamb_configs.exclude_from_weight_decay.get().empty());
  EXPECT_EQ(strategy.gradient_scale_configs.scale_strategy.get(), "avg");
  EXPECT_TRUE(strategy.fuse_all_reduce_ops);
  EXPECT_EQ(strategy.fuse_grad_size_in_MB, 32);
  EXPECT_EQ(strategy.last_comm_group_size_MB, 1);
  for (const AnySetting* setting : strategy.settings()) {
    EXPECT_TRUE(setting->is_default()) << setting->path();
    EXPECT_NO_THROW(setting->check(setting->default_value()));
    EXPECT_NE(setting->doc(), "") << setting->path();
  }
}

TEST(Strategy, EveryNameIsThereOnce) {
  std::set<std::string> names;
  const DistributedStrategy strategy;
  for (const AnySetting* setting : strategy.settings()) {
    EXPECT_TRUE(names.insert(setting->path()).second) << setting->path();
  }
  EXPECT_TRUE(names.count("gradient_merge"));
  EXPECT_TRUE(names.count("gradient_merge_configs.k_steps"));
}

TEST(Strategy, AssignmentsAreChecked) {
  DistributedStrategy strategy;
  EXPECT_EQ(
      refusal([&] { strategy.gradient_merge_configs.k_steps = 0; }),
      "[fleet.strategy] gradient_merge_configs.k_steps is 0, expected an "
      "integer >= 1");
  EXPECT_EQ(
      refusal([&] { strategy.last_comm_group_size_MB = 0; }),
      "[fleet.strategy] last_comm_group_size_MB is 0.0, expected a number > 0");
  EXPECT_EQ(
      refusal([&] { strategy.amp_configs.decr_ratio = 1; }),
      "[fleet.strategy] amp_configs.decr_ratio is 1.0, expected a number in "
      "(0, 1)");
  EXPECT_EQ(
      refusal([&] { strategy.gradient_scale_configs.scale_strategy = "mean"; }),
      "[fleet.strategy] gradient_scale_configs.scale_strategy is \"mean\", "
      "expected one of avg, sum, customized");
  EXPECT_EQ(
      refusal([&] {
        strategy.dgc_configs.sparsity = {0.5, 1.0};
      }),
      "[fleet.strategy] dgc_configs.sparsity is [0.5,1.0], expected a list of "
      "numbers in [0, 1)");
  EXPECT_THAT(
      refusal([&] { strategy.fuse_grad_size_in_MB = std::nan(""); }),
      HasSubstr("fuse_grad_size_in_MB is null"));
  EXPECT_EQ(strategy, DistributedStrategy());
}

TEST(Strategy, TypesDoNotTurnIntoEachOther) {
  static_assert(!std::is_assignable_v<Setting<bool>&, int>);
  static_assert(!std::is_assignable_v<Setting<int>&, double>);
  static_assert(!std::is_assignable_v<Setting<int>&, bool>);
  static_assert(!std::is_assignable_v<Setting<double>&, bool>);
  static_assert(std::is_assignable_v<Setting<double>&, int>);
  static_assert(std::is_assignable_v<Setting<std::string>&, const char*>);
}

TEST(Strategy, CopiesAreIndependent) {
  DistributedStrategy first;
  first.amp = true;
  DistributedStrategy second = first;
  second.amp = false;
  second.lars_configs.epsilon = 0.5;
  EXPECT_TRUE(first.amp);
  EXPECT_EQ(first.lars_configs.epsilon, 0);
  EXPECT_NE(first, second);
  first = second;
  EXPECT_EQ(first, second);
  first.lamb_configs = LambConfigs(second.lamb_configs);
  EXPECT_EQ(first.lamb_configs.path(), "lamb_configs");
}

TEST(Strategy, AValueIsAssignedWithoutItsName) {
  DistributedStrategy strategy;
  strategy.lars = true;
  strategy.amp = strategy.lars;
  EXPECT_TRUE(strategy.amp);
  EXPECT_EQ(strategy.amp.name(), "amp");
}

// ---- JSON -------------------------------------------------------------------

DistributedStrategy everything_changed() {
  return DistributedStrategy::from_json(R"({
    "amp": true,
    "amp_configs": {"init_loss_scaling": 1024, "decr_ratio": 0.5},
    "dgc_configs": {"sparsity": [0.75, 0.9375, 0.984375]},
    "lars_configs": {"exclude_from_weight_decay": ["bias", "norm"]},
    "gradient_scale_configs": {"scale_strategy": "sum"},
    "fuse_all_reduce_ops": false,
    "fuse_grad_size_in_MB": 0.1})");
}

TEST(StrategyJson, ReadsWhatIsThereAndKeepsTheRest) {
  const DistributedStrategy strategy = everything_changed();
  EXPECT_TRUE(strategy.amp);
  EXPECT_EQ(strategy.amp_configs.init_loss_scaling, 1024);
  EXPECT_EQ(strategy.amp_configs.decr_ratio, 0.5);
  EXPECT_EQ(strategy.amp_configs.incr_ratio, 2);
  EXPECT_EQ(
      strategy.dgc_configs.sparsity.get(),
      (std::vector<double>{0.75, 0.9375, 0.984375}));
  EXPECT_EQ(
      strategy.lars_configs.exclude_from_weight_decay.get(),
      (std::vector<std::string>{"bias", "norm"}));
  EXPECT_FALSE(strategy.fuse_all_reduce_ops);
  EXPECT_FALSE(strategy.gradient_merge);
}

TEST(StrategyJson, ComesBackThroughTextAndFile) {
  const TempDir dir;
  for (const auto& strategy : {DistributedStrategy(), everything_changed()}) {
    EXPECT_EQ(DistributedStrategy::from_json(strategy.to_json()), strategy);
    strategy.save(dir.path() / "strategy.json");
    EXPECT_EQ(
        DistributedStrategy::load(dir.path() / "strategy.json"), strategy);
  }
}

TEST(StrategyJson, ASectionMergesIntoItself) {
  DistributedStrategy strategy;
  strategy.gradient_merge_configs.avg = false;
  strategy.gradient_merge_configs.merge_json(R"({"k_steps": 4})");
  EXPECT_EQ(strategy.gradient_merge_configs.k_steps, 4);
  EXPECT_FALSE(strategy.gradient_merge_configs.avg);
}

TEST(StrategyJson, NamesTheNearestOfAnUnknownName) {
  EXPECT_EQ(
      refusal_of_json(R"({"gradient_merg": true})"),
      "[fleet.strategy] there is no gradient_merg: did you mean "
      "gradient_merge?");
  EXPECT_EQ(
      refusal_of_json(R"({"amp_configs": {"init_los_scaling": 1}})"),
      "[fleet.strategy] there is no amp_configs.init_los_scaling: did you mean "
      "amp_configs.init_loss_scaling?");
  EXPECT_EQ(
      refusal_of_json(R"({"localsgd_configs": {"zebra": 1}})"),
      "[fleet.strategy] there is no localsgd_configs.zebra; there are k_steps, "
      "begin_step");
}

TEST(StrategyJson, NamesAValueOfAnotherType) {
  EXPECT_EQ(
      refusal_of_json(R"({"amp": "yes"})"),
      "[fleet.strategy] amp is \"yes\", expected true or false");
  EXPECT_EQ(
      refusal_of_json(R"({"amp": 1})"),
      "[fleet.strategy] amp is 1, expected true or false");
  EXPECT_EQ(
      refusal_of_json(R"({"gradient_merge_configs": {"k_steps": 2.0}})"),
      "[fleet.strategy] gradient_merge_configs.k_steps is 2.0, expected an "
      "integer >= 1");
  EXPECT_EQ(
      refusal_of_json(R"({"gradient_merge_configs": {"k_steps": 3000000000}})"),
      "[fleet.strategy] gradient_merge_configs.k_steps is 3000000000, expected "
      "an integer >= 1");
  EXPECT_EQ(
      refusal_of_json(R"({"dgc_configs": {"sparsity": [0.5, "x"]}})"),
      "[fleet.strategy] dgc_configs.sparsity is [0.5,\"x\"], expected a list "
      "of numbers in [0, 1)");
  EXPECT_EQ(
      refusal_of_json(R"({"dgc_configs": {"sparsity": 0.5}})"),
      "[fleet.strategy] dgc_configs.sparsity is 0.5, expected a list of "
      "numbers in [0, 1)");
  EXPECT_EQ(
      refusal_of_json(R"({"amp_configs": 5})"),
      "[fleet.strategy] amp_configs is 5, expected an object of settings");
  EXPECT_EQ(
      refusal_of_json("[]"),
      "[fleet.strategy] the document is [], expected an object of settings");
  EXPECT_EQ(
      refusal_of_json(R"({"lars_configs": {"epsilon": null}})"),
      "[fleet.strategy] lars_configs.epsilon is null, expected a number >= 0");
}

TEST(StrategyJson, SetsNothingWhenOneIsWrong) {
  DistributedStrategy strategy;
  EXPECT_THROW(
      strategy.merge_json(
          R"({"amp": true, "localsgd_configs": {"k_steps": 0}})"),
      InvalidArgument);
  EXPECT_EQ(strategy, DistributedStrategy());
}

TEST(StrategyJson, RefusesWhatIsNotJson) {
  EXPECT_EQ(
      refusal_of_json("{\"amp\": tru"),
      "[fleet.strategy] JSON: not JSON, at byte 12 of 11");
  EXPECT_EQ(
      refusal_of_json(R"({"amp": true, "amp": false})"),
      "[fleet.strategy] JSON: the key \"amp\" is there twice in one object");
  const TempDir dir;
  const std::string path = dir.path() / "s.json";
  EXPECT_EQ(
      refusal([&] { DistributedStrategy::load(path); }),
      "[fleet.strategy] " + path + ": there is no such file");
  write_file(path, "{");
  EXPECT_THAT(
      refusal([&] { DistributedStrategy::load(path); }),
      StartsWith("[fleet.strategy] " + path + ": not JSON"));
}

TEST(StrategyJson, SaysAllThatIsWrongAndInWhichFile) {
  const TempDir dir;
  const std::string path = dir.path() / "s.json";
  write_file(
      path,
      R"({"lam": true, "amp": 1, "hybrid_configs": {"mp_degree": 0,
          "tp_degree": 2}})");
  EXPECT_EQ(
      refusal([&] { DistributedStrategy::load(path); }),
      "[fleet.strategy] " + path +
          ": 4 problems:\n"
          "  amp is 1, expected true or false\n"
          "  hybrid_configs.mp_degree is 0, expected an integer >= 1\n"
          "  there is no hybrid_configs.tp_degree: it is "
          "hybrid_configs.mp_degree\n"
          "  there is no lam: did you mean lamb?");
  // So do the checks of init().
  write_file(path, R"({"lars": true, "lamb": true, "dgc": true})");
  EXPECT_THAT(
      refusal([&] { check_strategy(DistributedStrategy::load(path)); }),
      StartsWith(
          "[fleet.strategy] " + path +
          ": 3 problems:\n  lars and lamb exclude each other"));
}

TEST(StrategyJson, KnowsTheNamesOfPaddle) {
  const auto strategy = DistributedStrategy::from_json(R"({
    "tensor_parallel_configs": {"tensor_parallel_degree": 2,
                                "tensor_init_seed": -1},
    "hybrid_configs": {
      "pp_degree": 2,
      "pp_configs": {"delay_scale_loss": true, "dp_comm_overlap": true},
      "mp_configs": {"sync_param": true, "mp_async_allreduce": true},
      "sharding_configs": {"comm_buffer_size_MB": 256, "tensor_fusion": true}},
    "sharding_configs": {"sharding_degree": 4, "optimize_offload": true},
    "amp_configs": {"use_master_grad": true, "custom_white_list": ["tanh"]},
    "build_strategy": {"fuse_bn_act_ops": true},
    "use_hierarchical_allreduce": true, "asp": false})");
  EXPECT_EQ(strategy.hybrid_configs.mp_degree, 2);
  EXPECT_EQ(strategy.hybrid_configs.sharding_degree, 4);
  EXPECT_TRUE(strategy.pipeline_configs.delay_scale_loss);
  EXPECT_TRUE(strategy.hybrid_configs.sync_param);
  EXPECT_EQ(strategy.sharding_configs.comm_buffer_size_MB, 256);
  EXPECT_TRUE(strategy.sharding_configs.offload);
  EXPECT_TRUE(strategy.amp_configs.use_main_grad);
  EXPECT_THAT(
      strategy.amp_configs.custom_white_list.get(),
      ::testing::ElementsAre("tanh"));
}

TEST(StrategyJson, SaysWhatToUseInsteadOfANameOfPaddle) {
  EXPECT_EQ(
      refusal_of_json(R"({"amp_configs": {"custom_black_varnames": ["x"]}})"),
      "[fleet.strategy] amp_configs.custom_black_varnames is [\"x\"]: "
      "activations have no names; set amp_configs.custom_black_list, or run "
      "the layer inside optim::AutoCast(false)");
  EXPECT_EQ(
      refusal_of_json(R"({"pipeline": true})"),
      "[fleet.strategy] pipeline is true: set hybrid_configs.pp_degree");
  EXPECT_THAT(
      refusal_of_json(R"({"sparse_table_configs": {"items": {}}})"),
      HasSubstr("set ps_configs"));
  EXPECT_THAT(
      refusal_of_json(R"({"a_sync_configs": {"use_ps_gpu": 1}})"),
      HasSubstr("a_sync_configs.use_ps_gpu is 1: all ranks compute on CPUs"));
  EXPECT_THAT(
      refusal_of_json(R"({"hybrid_configs": {"moe_degree": 2}})"),
      HasSubstr("there is no hybrid_configs.moe_degree: "
                "hybrid_configs.ep_degree is the number of ranks"));
  EXPECT_THAT(
      refusal_of_json(R"({"hybrid_configs": {"mp_configs": {"sync": 1}}})"),
      HasSubstr("there is no hybrid_configs.mp_configs.sync: did you mean "
                "hybrid_configs.mp_configs.sync_"));
  EXPECT_THAT(
      refusal_of_json(
          R"({"hybrid_configs": {"mp_degree": 2},
              "tensor_parallel_configs": {"tensor_parallel_degree": 4}})"),
      HasSubstr("hybrid_configs.mp_degree is 2 and "
                "tensor_parallel_configs.tensor_parallel_degree is 4, but both "
                "are hybrid_configs.mp_degree"));
}

// The tables agree with the settings, with each other and with the page.
TEST(ForeignNames, AreNoneOfOurs) {
  const DistributedStrategy strategy;
  const std::string page =
      read_file(ARGOSY_SOURCE_DIR "/docs/coming-from-paddle.md").value();
  for (const ForeignName& each : foreign_names()) {
    EXPECT_EQ(strategy.find(each.path), nullptr) << each.path;
    EXPECT_FALSE(alias_of(each.path)) << each.path;
    EXPECT_THAT(page, HasSubstr(str("| `", each.path, "` |")));
  }
  for (const Alias& each : aliases()) {
    EXPECT_EQ(strategy.find(each.path), nullptr) << each.path;
    EXPECT_NE(strategy.find(each.ours), nullptr) << each.ours;
    EXPECT_THAT(
        page, HasSubstr(str("| `", each.path, "` | `", each.ours, "` |")));
  }
}

TEST(Prototxt, IsReadAsJsonIs) {
  const TempDir dir;
  const std::string path = dir.path() / "strategy.prototxt";
  write_file(path, R"(# what save_to_prototxt() writes
mode: COLLECTIVE
amp: true
amp_configs {
  init_loss_scaling: 1024.0
  use_dynamic_loss_scaling: false
}
dgc_configs { sparsity: 0.75 sparsity: 0.9375 }
lars_configs: { exclude_from_weight_decay: "bias" }
recompute_configs { checkpoints: ["blocks\\.0", 'head'] }
hybrid_configs {
  mp_degree: 2
  pp_configs { delay_scale_loss: true }
}
pipeline_configs { schedule_mode: "F-then-B" }
)");
  const auto strategy = DistributedStrategy::load(path);
  EXPECT_TRUE(strategy.amp);
  EXPECT_EQ(strategy.amp_configs.init_loss_scaling, 1024);
  EXPECT_FALSE(strategy.amp_configs.use_dynamic_loss_scaling);
  EXPECT_EQ(
      strategy.dgc_configs.sparsity.get(), (std::vector<double>{0.75, 0.9375}));
  EXPECT_EQ(
      strategy.lars_configs.exclude_from_weight_decay.get(),
      std::vector<std::string>{"bias"});
  EXPECT_EQ(
      strategy.recompute_configs.checkpoints.get(),
      (std::vector<std::string>{"blocks\\.0", "head"}));
  EXPECT_EQ(strategy.hybrid_configs.mp_degree, 2);
  EXPECT_TRUE(strategy.pipeline_configs.delay_scale_loss);
  EXPECT_EQ(strategy.pipeline_configs.schedule_mode.get(), "F-then-B");
  EXPECT_EQ(strategy.source(), path);
}

TEST(Prototxt, NamesTheLineThatIsWrong) {
  const auto refused = [](const char* text) {
    return refusal([&] {
      prototxt_to_json(text, "f", [](const std::string&) { return false; });
    });
  };
  EXPECT_EQ(
      refused("amp: true\namp_configs {\n"),
      "[fleet.strategy] f: neither JSON nor a prototxt, in line 3 expected }");
  EXPECT_THAT(refused("amp:\n"), HasSubstr("in line 2 expected a value"));
  EXPECT_THAT(refused("}"), HasSubstr("in line 1 expected a name"));
  EXPECT_THAT(refused("a: 'x"), HasSubstr("expected the end of a string"));
  EXPECT_THAT(refused("a: [1 2]"), HasSubstr("expected , or ]"));
}

// ---- The table --------------------------------------------------------------

TEST(StrategyTable, HasARowForEachSettingAndMarksTheChanged) {
  const DistributedStrategy strategy = everything_changed();
  std::ostringstream out;
  out << strategy;
  const std::string table = out.str();
  EXPECT_THAT(table, StartsWith("  setting "));
  EXPECT_THAT(table, HasSubstr("\n* amp  "));
  EXPECT_THAT(table, HasSubstr("\n* amp_configs.init_loss_scaling "));
  EXPECT_THAT(table, HasSubstr("\n  gradient_merge  "));
  EXPECT_THAT(table, HasSubstr("[\"bias\",\"norm\"]"));
  EXPECT_THAT(table, HasSubstr("an integer >= 1"));
  EXPECT_EQ(
      std::count(table.begin(), table.end(), '\n'),
      static_cast<long>(strategy.settings().size()) + 1);
}

// The note has the settings and exclusions of the code, no more and no less.
TEST(StrategyTable, IsInTheNote) {
  std::ostringstream settings;
  const DistributedStrategy strategy;
  for (const AnySetting* setting : strategy.settings()) {
    settings << "| `" << setting->path() << "` | "
             << json_text(setting->default_value()) << " | "
             << setting->expected() << " | " << setting->doc() << " |\n";
  }
  std::ostringstream excluded;
  for (const Exclusion& each : exclusions()) {
    excluded << "| `" << each.one << "` | `" << each.other << "` | " << each.why
             << " |\n";
  }
  const std::string note =
      read_file(ARGOSY_SOURCE_DIR "/docs/fleet.md").value();
  EXPECT_THAT(note, HasSubstr("|---|---|---|---|\n" + settings.str() + "\n"));
  EXPECT_THAT(note, HasSubstr("|---|---|---|\n" + excluded.str() + "\n"));
  for (const WithoutEffect& each : settings_without_effect()) {
    EXPECT_THAT(note, HasSubstr(str("| `", each.setting, "` | ", each.why)));
  }
}

// ---- What excludes what -----------------------------------------------------

DistributedStrategy with(const std::vector<std::string>& switches) {
  DistributedStrategy strategy;
  for (const std::string& name : switches) {
    strategy.merge_json("{\"" + name + "\": true}");
  }
  return strategy;
}

TEST(Combination, ExclusionsNameBothAndSayWhy) {
  for (const Exclusion& each : exclusions()) {
    EXPECT_EQ(
        refusal([&] {
          check_strategy(with({each.one, each.other}));
        }),
        std::string("[fleet.strategy] ") + each.one + " and " + each.other +
            " exclude each other: " + each.why);
    EXPECT_NO_THROW(check_strategy(with({each.one})));
    EXPECT_NO_THROW(check_strategy(with({each.other})));
  }
}

TEST(Combination, TheRestGoesTogether) {
  const std::vector<std::string> switches = {
      "amp",
      "gradient_merge",
      "localsgd",
      "adaptive_localsgd",
      "dgc",
      "fp16_allreduce",
      "bf16_allreduce",
      "power_sgd",
      "lars",
      "lamb",
      "grad_clip",
      "ema",
      "sync_batch_norm",
      "find_unused_parameters",
      "sharding"};
  std::size_t refused = 0;
  for (std::size_t i = 0; i < switches.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      refused += refusal([&] {
                   check_strategy(with({switches[i], switches[j]}));
                 }).empty()
          ? 0
          : 1;
    }
  }
  EXPECT_EQ(refused, exclusions().size());
}

TEST(Combination, CompressionWithAnErrorGoesWithStage1) {
  for (const std::string name : {"dgc", "power_sgd"}) {
    auto strategy = with({name, "sharding"});
    EXPECT_NO_THROW(check_strategy(strategy));
    for (const int stage : {2, 3}) {
      strategy.sharding_configs.stage = stage;
      EXPECT_THAT(
          refusal([&] { check_strategy(strategy); }),
          HasSubstr(
              str(name,
                  " and sharding_configs.stage ",
                  stage,
                  " exclude each other: it keeps an error of the size of all "
                  "gradients on every rank, which is what stage 2 saves")));
    }
  }
}

TEST(Combination, ShardingOverOneRankIsRefused) {
  auto strategy = with({"sharding"});
  EXPECT_NO_THROW(check_strategy(strategy));
  strategy.hybrid_configs.dp_degree = 4;
  EXPECT_EQ(
      refusal([&] { check_strategy(strategy); }),
      "[fleet.strategy] sharding with hybrid_configs.dp_degree 4 would shard "
      "over one rank: leave dp_degree out to shard over all ranks with their "
      "own data, or set hybrid_configs.sharding_degree to the number of "
      "shards");
  strategy.hybrid_configs.sharding_degree = 2;
  EXPECT_NO_THROW(check_strategy(strategy));
}

TEST(Combination, SettingsWithoutEffectAreRefused) {
  const auto refused = [](const std::string& json) {
    return refusal(
        [&] { check_strategy(DistributedStrategy::from_json(json)); });
  };
  const auto sharded = [&](const std::string& configs) {
    return refused(
        R"({"sharding": true, "sharding_configs": {)" + configs + "}}");
  };
  const char* kRefused = "has no effect: it belongs to stage 3";
  EXPECT_EQ(
      sharded(R"("stage": 2, "units": ["a"])"),
      "[fleet.strategy] sharding_configs.units is [\"a\"] and has no effect: "
      "it belongs to stage 3; set sharding_configs.stage to 3");
  EXPECT_THAT(sharded(R"("segment_size_KB": 1)"), HasSubstr(kRefused));
  EXPECT_THAT(
      sharded(R"("stage": 2, "exclude_layer": ["a"])"), HasSubstr(kRefused));
  EXPECT_THAT(
      sharded(R"("offload": true, "offload_params": true)"),
      HasSubstr(kRefused));
  EXPECT_THAT(
      sharded(R"("offload": true, "offload_grads": true)"),
      HasSubstr("stage 1 keeps whole gradients"));
  EXPECT_THAT(
      sharded(R"("stage": 3, "comm_buffer_size_MB": 4)"),
      HasSubstr("stage 3 communicates module by module"));
  EXPECT_THAT(
      sharded(R"("offload_path": "/tmp")"),
      HasSubstr("it needs sharding_configs.offload"));
  EXPECT_EQ(
      sharded(R"("stage": 3, "units": ["a"], "exclude_layer": ["b"],
                 "comm_buffer_size_MB": 4, "segment_size_KB": 1,
                 "offload": true, "offload_params": true)"),
      "");
  for (const char* fuse :
       {R"("fuse_all_reduce_ops": false)",
        R"("fuse_grad_size_in_MB": 8)",
        R"("last_comm_group_size_MB": 8)"}) {
    const auto also = [&](const std::string& more) {
      return refused("{" + more + ", " + fuse + "}");
    };
    EXPECT_THAT(
        also(R"("sharding": true)"),
        HasSubstr("sharding has buffers of its own"));
    EXPECT_THAT(
        also(R"("localsgd": true)"), HasSubstr("local SGD sends no gradients"));
    EXPECT_EQ(also(R"("amp": true)"), "");
  }
  EXPECT_THAT(
      refused(R"({"fuse_all_reduce_ops": false, "fuse_grad_size_in_MB": 8})"),
      HasSubstr("there are no buckets"));
  EXPECT_THAT(
      refused(R"({"pipeline_configs": {"schedule_mode": "VPP",
                  "schedule_file": "s.json"}})"),
      HasSubstr("schedule_file replaces it"));
}

// A strategy may keep settings for a switch that is off; init() says so.
TEST(Combination, SettingsOfSwitchesThatAreOffAreFound) {
  const auto strategy = DistributedStrategy::from_json(
      R"({"lars": true, "lars_configs": {"epsilon": 1},
          "lamb_configs": {"lamb_weight_decay": 1},
          "sharding_configs": {"stage": 3},
          "pipeline_configs": {"accumulate_steps": 2}})");
  EXPECT_THAT(
      settings_of_switches_that_are_off(strategy),
      ::testing::ElementsAre(
          "lamb_configs.lamb_weight_decay", "sharding_configs.stage"));
}

TEST(Combination, RecomputeNeedsNames) {
  auto strategy = with({"recompute"});
  EXPECT_THAT(
      refusal([&] { check_strategy(strategy); }),
      HasSubstr("recompute needs recompute_configs.checkpoints"));
  strategy.recompute_configs.checkpoints = {"blocks"};
  EXPECT_NO_THROW(check_strategy(strategy));
  strategy.hybrid_configs.pp_degree = 2;
  EXPECT_NO_THROW(check_strategy(strategy));
}

TEST(Combination, LooksAtConfigsToo) {
  auto strategy = with({"dgc", "grad_clip"});
  EXPECT_NO_THROW(check_strategy(strategy));
  strategy.grad_clip_configs.by = "value";
  EXPECT_THAT(
      refusal([&] { check_strategy(strategy); }),
      HasSubstr("dgc and grad_clip by value exclude each other"));
  strategy = with({"dgc"});
  strategy.dgc_configs.sparsity = {};
  EXPECT_THAT(
      refusal([&] { check_strategy(strategy); }),
      HasSubstr("dgc_configs.sparsity is []"));
  strategy = with({"adaptive_localsgd"});
  strategy.gradient_scale_configs.scale_strategy = "sum";
  EXPECT_THAT(
      refusal([&] { check_strategy(strategy); }),
      HasSubstr("adaptive_localsgd and gradient_scale_configs.scale_strategy "
                "sum exclude each other"));
}

// ---- Shards of files --------------------------------------------------------

TEST(FileShard, IsContiguousAndTheFirstHaveMore) {
  const std::vector<std::string> files = {"a", "b", "c", "d", "e"};
  using Files = std::vector<std::string>;
  EXPECT_EQ(file_shard(files, 0, 1), files);
  EXPECT_EQ(file_shard(files, 0, 2), (Files{"a", "b", "c"}));
  EXPECT_EQ(file_shard(files, 1, 2), (Files{"d", "e"}));
  EXPECT_EQ(file_shard(files, 0, 3), (Files{"a", "b"}));
  EXPECT_EQ(file_shard(files, 1, 3), (Files{"c", "d"}));
  EXPECT_EQ(file_shard(files, 2, 3), (Files{"e"}));
  EXPECT_EQ(file_shard({"a", "b", "c"}, 0, 2), (Files{"a", "b"}));
  EXPECT_EQ(file_shard({"a", "b", "c"}, 1, 2), (Files{"c"}));
  EXPECT_EQ(file_shard({"a", "b"}, 1, 4), (Files{"b"}));
  EXPECT_EQ(file_shard({"a", "b"}, 2, 4), Files{});
  EXPECT_EQ(file_shard({"a", "b"}, 3, 4), Files{});
  EXPECT_EQ(file_shard({}, 0, 2), Files{});
}

TEST(FileShard, PartsAreTheWholeForAllSizes) {
  for (int n = 0; n <= 12; ++n) {
    std::vector<std::string> files;
    for (int i = 0; i < n; ++i) {
      files.push_back(std::to_string(i));
    }
    for (int parts = 1; parts <= 7; ++parts) {
      std::vector<std::string> together;
      for (int part = 0; part < parts; ++part) {
        const auto shard = file_shard(files, part, parts);
        EXPECT_EQ(shard.size(), n / parts + (part < n % parts ? 1u : 0u));
        together.insert(together.end(), shard.begin(), shard.end());
      }
      EXPECT_EQ(together, files);
    }
  }
}

TEST(FileShard, RefusesAPartThatIsNotThere) {
  EXPECT_THAT(
      refusal([] { file_shard({}, 2, 2); }),
      HasSubstr("[fleet.get_file_shard] part 2 of 2"));
}

} // namespace
} // namespace argosy::fleet
