#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "tests/checkpoint/gpt_layouts.h"

// Runs of the GPT that stop and continue: the layouts, and what is compared.
namespace argosy::testing {

// A scale that float32 just bears: some steps are skipped. It does not grow by
// powers of 2, which would not show in the bits of the gradients.
inline constexpr const char* kAmp = R"({"amp": true, "amp_configs": {
  "init_loss_scaling": 1e38, "incr_every_n_steps": 3, "incr_ratio": 1.7,
  "decr_every_n_nan_or_inf": 1}})";
inline constexpr const char* kPureBf16 = R"({"amp": true, "amp_configs": {
  "init_loss_scaling": 100, "incr_every_n_steps": 3, "incr_ratio": 1.7,
  "use_pure_bf16": true}})";

inline constexpr const char* kPowerSgd = R"({"power_sgd": true,
  "power_sgd_configs": {"rank": 1, "start_step": 3, "min_compression": 1}})";

inline std::vector<Layout> layouts() {
  return {
      {.name = "plain", .optimizer = "SGD", .more = kAmp},
      {.name = "dp3", .ranks = 3, .dp = 3, .more = R"({"ema": true})"},
      {.name = "dp3_amp",
       .ranks = 3,
       .dp = 3,
       .optimizer = "SGD",
       .more = kAmp},
      {.name = "dp2_power_sgd", .ranks = 2, .dp = 2, .more = kPowerSgd},
      {.name = "dp2_dgc",
       .ranks = 2,
       .dp = 2,
       .optimizer = "SGD",
       .more = R"({"dgc": true})"},
      {.name = "dp2_bf16", .ranks = 2, .dp = 2, .more = kPureBf16},
      {.name = "dp4", .ranks = 4, .dp = 4, .optimizer = "torch", .more = kAmp},
      {.name = "sharding4_1",
       .ranks = 4,
       .sharding = 4,
       .stage = 1,
       .optimizer = "SGD",
       .more = kAmp},
      {.name = "sharding4_2",
       .ranks = 4,
       .sharding = 4,
       .stage = 2,
       .more = kAmp},
      {.name = "sharding4_3",
       .ranks = 4,
       .sharding = 4,
       .stage = 3,
       .optimizer = "SGD",
       .more = kAmp},
      {.name = "dp2_sharding2_3",
       .ranks = 4,
       .dp = 2,
       .sharding = 2,
       .stage = 3},
      {.name = "mp2", .ranks = 2, .mp = 2, .more = kAmp},
      {.name = "mp4_tokens", .ranks = 4, .mp = 4, .tokens = true},
      {.name = "sharding2_3_mp2",
       .ranks = 4,
       .sharding = 2,
       .stage = 3,
       .mp = 2,
       .more = kAmp},
      {.name = "sharding2_1_mp2",
       .ranks = 4,
       .sharding = 2,
       .stage = 1,
       .mp = 2},
      {.name = "sep2_mp2", .ranks = 4, .sep = 2, .mp = 2, .optimizer = "SGD"},
      {.name = "pp2", .ranks = 2, .pp = 2, .more = kAmp},
      {.name = "pp4_zbh1",
       .ranks = 4,
       .pp = 4,
       .schedule = "ZBH1",
       .optimizer = "SGD",
       .more = kAmp},
      {.name = "pp2_vpp2", .ranks = 2, .pp = 2, .chunks = 2, .schedule = "VPP"},
      {.name = "dp2_pp2_mp2",
       .ranks = 8,
       .dp = 2,
       .pp = 2,
       .mp = 2,
       .more = kAmp},
      {.name = "pp2_sharding2_2_mp2",
       .ranks = 8,
       .pp = 2,
       .sharding = 2,
       .stage = 2,
       .mp = 2,
       .more = kAmp},
      {.name = "pp2_sharding2_3",
       .ranks = 4,
       .pp = 2,
       .sharding = 2,
       .stage = 3},
      {.name = "grid2x2", .ranks = 4, .mp = 4, .grid = {2, 2}},
      {.name = "sharding2_3_grid2",
       .ranks = 4,
       .sharding = 2,
       .stage = 3,
       .mp = 2,
       .grid = {2, 1}},
      {.name = "experts", .experts = 3},
      {.name = "ep2", .ranks = 2, .ep = 2, .experts = 3},
      {.name = "dp2_ep2", .ranks = 4, .dp = 2, .ep = 2, .experts = 3},
      {.name = "ep2_mp2", .ranks = 4, .mp = 2, .ep = 2, .experts = 3}};
}

inline Layout layout_named(const std::string& name) {
  for (Layout& each : layouts()) {
    if (each.name == name) {
      return each;
    }
  }
  throw InvalidArgument("no layout " + name);
}

// The same training in all layouts: to compare them with one another.
inline Layout without_extras(Layout layout) {
  layout.optimizer = "AdamW";
  layout.more = "{}";
  return layout;
}

struct Ended {
  std::vector<double> losses; // of the steps after the save
  double scale = 1;
  std::map<std::string, at::Tensor> parameters; // of all stages
};

// Adds what a rank ended with; it has the parameters of its stage.
inline void merge(Ended& run, const Ended& rank) {
  run.losses = rank.losses;
  run.scale = rank.scale;
  for (const auto& [name, value] : rank.parameters) {
    run.parameters[name] = value;
  }
}

inline Ended train_to_end(GptRun& run, int steps) {
  const auto losses = run.train(steps);
  return {losses, run.scale(), run.parameters()};
}

inline void expect_same_bits(const Ended& got, const Ended& expected) {
  EXPECT_EQ(got.losses, expected.losses);
  EXPECT_EQ(got.scale, expected.scale);
  EXPECT_FALSE(expected.parameters.empty());
  ASSERT_EQ(got.parameters.size(), expected.parameters.size());
  for (const auto& [name, value] : expected.parameters) {
    EXPECT_TRUE(value.equal(got.parameters.at(name))) << name;
  }
}

inline void expect_close(const Ended& got, const Ended& expected) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-8) << "step " << i;
  }
  EXPECT_FALSE(expected.parameters.empty());
  ASSERT_EQ(got.parameters.size(), expected.parameters.size());
  for (const auto& [name, value] : expected.parameters) {
    EXPECT_TRUE(torch::allclose(value, got.parameters.at(name), 1e-6, 1e-8))
        << name;
  }
}

// The name in the list of layers of a parameter of the GPT: the inverse of
// examples::gpt_name(). Shared weights have their first name.
inline std::string list_name(const std::string& name, long num_blocks) {
  const std::string blocks = "blocks.";
  if (name.starts_with("tokens.")) {
    return "0" + name.substr(sizeof("tokens") - 1);
  }
  if (name.starts_with("places.")) {
    return "1." + name;
  }
  if (name.starts_with(blocks)) {
    const std::size_t dot = name.find('.', blocks.size());
    const long block = std::stol(name.substr(blocks.size()));
    return std::to_string(block + 2) + name.substr(dot);
  }
  return std::to_string(num_blocks + 2) + name.substr(sizeof("norm") - 1);
}

// For each name of a state with the names of `to`, the name in a checkpoint
// with those of `from`: a pipeline is a list of layers.
inline std::function<std::string(const std::string&)> renaming(
    const Layout& from, const Layout& to) {
  if ((from.pp > 1) == (to.pp > 1)) {
    return nullptr;
  }
  return [to_list = from.pp > 1](const std::string& name) {
    const long layers = layout_task().gpt.layers;
    const std::size_t begin = name.find('/') + 1;
    const std::string kind = name.substr(0, begin);
    if (kind != "model/" && kind != "optimizer/") {
      return name;
    }
    // "model/blocks.0.qkv.weight", "optimizer/2.qkv.weight.exp_avg"
    const std::string inner = name.substr(begin);
    return kind +
        (to_list ? list_name(inner, layers)
                 : examples::gpt_name(inner, layers));
  };
}

} // namespace argosy::testing
