// A run that stops, is saved, and continues elsewhere is the run that did not
// stop: bit for bit in the same layout, to rounding in another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "argosy/common/file.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "tests/checkpoint/gpt_layouts.h"
#include "tests/support/parent_temp_dir.h"

namespace argosy::checkpoint {
namespace {

using testing::GptRun;
using testing::Layout;
using testing::RunOptions;

std::vector<Layout> layouts() {
  return {
      {.name = "plain"},
      {.name = "dp3", .ranks = 3, .dp = 3, .more = R"({"ema": true})"},
      {.name = "dp4", .ranks = 4, .dp = 4},
      {.name = "sharding4_1", .ranks = 4, .sharding = 4, .stage = 1},
      {.name = "sharding4_2", .ranks = 4, .sharding = 4, .stage = 2},
      {.name = "sharding4_3", .ranks = 4, .sharding = 4, .stage = 3},
      {.name = "dp2_sharding2_3",
       .ranks = 4,
       .dp = 2,
       .sharding = 2,
       .stage = 3},
      {.name = "mp2", .ranks = 2, .mp = 2},
      {.name = "mp4_tokens", .ranks = 4, .mp = 4, .tokens = true},
      {.name = "sharding2_3_mp2",
       .ranks = 4,
       .sharding = 2,
       .stage = 3,
       .mp = 2},
      {.name = "sharding2_1_mp2",
       .ranks = 4,
       .sharding = 2,
       .stage = 1,
       .mp = 2},
      {.name = "sep2_mp2", .ranks = 4, .sep = 2, .mp = 2},
      {.name = "pp2", .ranks = 2, .pp = 2},
      {.name = "pp4_zbh1", .ranks = 4, .pp = 4, .schedule = "ZBH1"},
      {.name = "pp2_vpp2", .ranks = 2, .pp = 2, .chunks = 2, .schedule = "VPP"},
      {.name = "dp2_pp2_mp2", .ranks = 8, .dp = 2, .pp = 2, .mp = 2},
      {.name = "pp2_sharding2_2_mp2",
       .ranks = 8,
       .pp = 2,
       .sharding = 2,
       .stage = 2,
       .mp = 2},
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

Layout layout_named(const std::string& name) {
  for (Layout& each : layouts()) {
    if (each.name == name) {
      return each;
    }
  }
  throw InvalidArgument("no layout " + name);
}

struct Ended {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> parameters; // of all stages
};

std::mutex merging;

// Parameters of this rank's stage, into those of the run.
void merge(Ended& run, GptRun& rank, const std::vector<double>& losses) {
  const auto parameters = rank.parameters();
  const std::lock_guard lock(merging);
  run.losses = losses;
  for (const auto& [name, value] : parameters) {
    run.parameters[name] = value;
  }
}

constexpr int kFirst = 3; // steps until the save
constexpr int kMore = 3;  // and after it; an epoch has 4

Ended run_through(
    const Layout& layout,
    const RunOptions& options,
    const std::string& folder) {
  Ended ended;
  testing::run_ranks(layout.ranks, [&](World&) {
    GptRun run(layout, options);
    run.train(kFirst);
    State state = run.state();
    if (!folder.empty()) {
      save(folder, state, kFirst);
    }
    const auto losses = run.train(kMore);
    merge(ended, run, losses);
  });
  return ended;
}

// For each name of a state with the names of `to`, the name in a checkpoint
// with those of `from`: a pipeline is a list of layers.
std::function<std::string(const std::string&)> renaming(
    const Layout& from, const Layout& to) {
  if ((from.pp > 1) == (to.pp > 1)) {
    return nullptr;
  }
  // "model/blocks.0.qkv.weight", "optimizer/2.qkv.weight.exp_avg"
  std::map<std::string, std::string> names;
  const long layers = testing::layout_task().gpt.layers;
  testing::run_ranks(1, [&](World&) {
    const examples::ParallelGptOptions gpt{testing::layout_task().gpt};
    const pipeline::PipelineLayer list(
        examples::gpt_layers(gpt), pipeline::PipelineLayerOptions());
    for (const auto& item : list->named_parameters()) {
      const std::string whole = examples::gpt_name(item.key(), layers);
      // Shared weights are saved under their first name.
      from.pp > 1 ? names.emplace(whole, item.key())
                  : names.emplace(item.key(), whole);
    }
  });
  return [names](const std::string& name) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) {
      return name;
    }
    const std::string inner = name.substr(slash + 1);
    for (const auto& [own, stored] : names) {
      if (inner == own || inner.starts_with(own + '.')) {
        return name.substr(0, slash + 1) + stored + inner.substr(own.size());
      }
    }
    return name;
  };
}

Ended run_resumed(
    const Layout& layout,
    const RunOptions& options,
    const std::string& folder,
    const LoadOptions& load_options = {}) {
  Ended ended;
  testing::run_ranks(layout.ranks, [&](World&) {
    GptRun run(layout, options);
    State state = run.state();
    const LoadReport report = load(folder, state, load_options);
    EXPECT_EQ(report.step, kFirst);
    EXPECT_EQ(run.steps(), kFirst);
    const auto losses = run.train(kMore);
    merge(ended, run, losses);
  });
  return ended;
}

void expect_same_bits(const Ended& got, const Ended& expected) {
  EXPECT_EQ(got.losses, expected.losses);
  ASSERT_EQ(got.parameters.size(), expected.parameters.size());
  for (const auto& [name, value] : expected.parameters) {
    EXPECT_TRUE(value.equal(got.parameters.at(name))) << name;
  }
}

void expect_close(const Ended& got, const Ended& expected) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-8) << "step " << i;
  }
  ASSERT_EQ(got.parameters.size(), expected.parameters.size());
  for (const auto& [name, value] : expected.parameters) {
    EXPECT_TRUE(torch::allclose(value, got.parameters.at(name), 1e-6, 1e-8))
        << name;
  }
}

class Resume : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint,
    Resume,
    ::testing::Range<std::size_t>(0, layouts().size()),
    [](const auto& of) { return layouts()[of.param].name; });

// With dropout, shuffled data, momentum, and (where the layout has them) moving
// averages.
TEST_P(Resume, IsExactInTheSameLayout) {
  const Layout layout = layouts()[GetParam()];
  const TempDir folder;
  const RunOptions options{.random = true};
  const Ended through = run_through(layout, options, folder.path());
  expect_same_bits(run_resumed(layout, options, folder.path()), through);
}

struct Pair {
  std::string from;
  std::string to;
};

std::vector<Pair> pairs() {
  return {
      {"plain", "dp4"},
      {"plain", "sharding4_3"},
      {"plain", "mp4_tokens"},
      {"plain", "pp4_zbh1"},
      {"plain", "dp2_pp2_mp2"},
      {"dp4", "dp3"},
      {"dp4", "mp2"},
      {"sharding4_1", "sharding4_3"},
      {"sharding4_2", "plain"},
      {"sharding4_3", "dp2_sharding2_3"},
      {"sharding4_3", "sharding2_3_mp2"},
      {"sharding4_3", "pp2_sharding2_3"},
      {"mp2", "mp4_tokens"},
      {"mp4_tokens", "sharding4_3"},
      {"sharding2_3_mp2", "sep2_mp2"},
      {"sep2_mp2", "pp2"},
      {"pp2", "pp4_zbh1"},
      {"pp4_zbh1", "pp2_vpp2"},
      {"pp2_vpp2", "dp2_pp2_mp2"},
      {"dp2_pp2_mp2", "plain"},
      {"dp2_pp2_mp2", "sharding4_2"},
      {"pp2_sharding2_2_mp2", "sharding2_1_mp2"},
      {"pp2_sharding2_3", "mp2"},
      {"pp2_sharding2_3", "pp2_sharding2_2_mp2"},
      {"sharding4_3", "grid2x2"},
      {"grid2x2", "sharding2_3_grid2"},
      {"sharding2_3_grid2", "pp2"},
      {"experts", "ep2"},
      {"ep2", "dp2_ep2"},
      {"dp2_ep2", "ep2_mp2"},
      {"ep2_mp2", "experts"}};
}

class Reshard : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint,
    Reshard,
    ::testing::Range<std::size_t>(0, pairs().size()),
    [](const auto& of) {
      return pairs()[of.param].from + "_to_" + pairs()[of.param].to;
    });

TEST_P(Reshard, ContinuesInAnotherLayout) {
  Layout from = layout_named(pairs()[GetParam()].from);
  Layout to = layout_named(pairs()[GetParam()].to);
  from.more = to.more = "{}";
  const TempDir folder;
  const Ended through = run_through(from, {}, folder.path());
  LoadOptions options;
  options.rename = renaming(from, to);
  expect_close(run_resumed(to, {}, folder.path(), options), through);
}

// The root does not depend on the layout.
TEST(RootHash, IsTheSameOnAnyLayout) {
  std::set<std::string> roots;
  for (const char* name :
       {"plain", "dp3", "sharding4_3", "mp2", "sharding2_3_mp2"}) {
    Layout layout = layout_named(name);
    layout.more = "{}";
    const TempDir folder;
    testing::run_ranks(layout.ranks, [&](World&) {
      GptRun run(layout); // no steps: rounding would differ
      State state = run.state();
      save(folder.path(), state, 0);
    });
    const Chosen chosen = choose(
        folder.path(), std::nullopt, Deadline::after(std::chrono::seconds(9)));
    const Manifest manifest = chosen.folder.read_manifest(
        chosen.name, Deadline::after(std::chrono::seconds(9)));
    ASSERT_TRUE(manifest.root);
    roots.insert(to_hex(*manifest.root));
  }
  EXPECT_EQ(roots.size(), 1u);
}

} // namespace
} // namespace argosy::checkpoint
