// A run that stops, is saved, and continues elsewhere is the run that did not
// stop: bit for bit in the same layout, to rounding in another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "argosy/common/file.h"
#include "argosy/testing/ranks.h"
#include "tests/checkpoint/gpt_runs.h"

namespace argosy::checkpoint {
namespace {

using testing::Ended;
using testing::expect_close;
using testing::expect_same_bits;
using testing::GptRun;
using testing::Layout;
using testing::layout_named;
using testing::layouts;
using testing::RunOptions;

struct Steps {
  int first = 0; // until the save
  int more = 0;  // and after it; an epoch has 4
};

std::mutex merging;

void merge_rank(Ended& run, const Ended& rank) {
  const std::lock_guard lock(merging);
  merge(run, rank);
}

Ended run_through(
    const Layout& layout,
    const RunOptions& options,
    const Steps& steps,
    const std::string& folder) {
  Ended ended;
  testing::run_ranks(layout.ranks, [&](World&) {
    GptRun run(layout, options);
    run.train(steps.first);
    State state = run.state();
    save(folder, state, steps.first);
    merge_rank(ended, train_to_end(run, steps.more));
  });
  return ended;
}

Ended run_resumed(
    const Layout& layout,
    const RunOptions& options,
    const Steps& steps,
    const std::string& folder,
    const LoadOptions& load_options = {}) {
  Ended ended;
  testing::run_ranks(layout.ranks, [&](World&) {
    GptRun run(layout, options);
    State state = run.state();
    const LoadReport report = load(folder, state, load_options);
    EXPECT_EQ(report.step, steps.first);
    EXPECT_EQ(run.steps(), steps.first);
    merge_rank(ended, train_to_end(run, steps.more));
  });
  return ended;
}

class Resume : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint,
    Resume,
    ::testing::Range<std::size_t>(0, layouts().size()),
    [](const auto& of) { return layouts()[of.param].name; });

// 20 steps are 10, a save, everything made anew, a load, and 10 more. With
// dropout, shuffled data, a schedule of the learning rate and, as the layout
// says, momentum, mixed precision with a scaler, moving averages.
TEST_P(Resume, IsExactInTheSameLayout) {
  const Layout layout = layouts()[GetParam()];
  const TempDir folder;
  const RunOptions options{.dropout = 0.1};
  const Steps steps{10, 10};
  const Ended through = run_through(layout, options, steps, folder.path());
  expect_same_bits(run_resumed(layout, options, steps, folder.path()), through);
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
  const Layout from = without_extras(layout_named(pairs()[GetParam()].from));
  const Layout to = without_extras(layout_named(pairs()[GetParam()].to));
  const TempDir folder;
  const Steps steps{3, 3};
  const Ended through = run_through(from, {}, steps, folder.path());
  LoadOptions options;
  options.rename = renaming(from, to);
  expect_close(run_resumed(to, {}, steps, folder.path(), options), through);
}

// The root does not depend on the layout.
TEST(RootHash, IsTheSameOnAnyLayout) {
  std::set<std::string> roots;
  for (const char* name :
       {"plain", "dp3", "sharding4_3", "mp2", "sharding2_3_mp2"}) {
    const Layout layout = without_extras(layout_named(name));
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
