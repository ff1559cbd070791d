// Strategies: settings, JSON, the table, what excludes what; shards of files.

#include "argosy/fleet/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/fleet/file_shard.h"
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
