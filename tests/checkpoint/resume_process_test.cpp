// As resume_test, with ranks that are processes, and that are killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <set>

#include "argosy/common/file.h"
#include "tests/checkpoint/gpt_runs.h"
#include "tests/support/parent_temp_dir.h"
#include "tests/support/process_runs.h"

namespace argosy::checkpoint {
namespace {

using testing::Ended;
using testing::GptRun;
using testing::Layout;
using testing::layout_named;
using testing::ParentTempDir;
using testing::RunOptions;

std::filesystem::path file_of(const std::string& run, int rank) {
  return ParentTempDir::path() / str(run, '-', rank, ".pickle");
}

// How a rank tells the test what it ended with.
void write_end(const std::string& run, const Ended& end) {
  c10::Dict<std::string, at::Tensor> values;
  for (const auto& [name, value] : end.parameters) {
    values.insert(name, value);
  }
  values.insert("/numbers", torch::tensor(end.losses, torch::kDouble));
  values.insert("/scale", torch::tensor({end.scale}, torch::kDouble));
  const std::vector<char> bytes = torch::pickle_save(values);
  write_file(file_of(run, get_rank()), {bytes.data(), bytes.size()});
}

Ended read_ends(const std::string& run, int num_ranks) {
  Ended ended;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto text = read_file(file_of(run, rank));
    if (!text) {
      ADD_FAILURE() << "rank " << rank << " of the run " << run
                    << " has not ended";
      continue;
    }
    const auto values =
        torch::pickle_load({text->begin(), text->end()}).toGenericDict();
    Ended own;
    for (const auto& entry : values) {
      const std::string name = entry.key().toStringRef();
      const at::Tensor value = entry.value().toTensor();
      if (name == "/numbers") {
        own.losses.assign(
            value.data_ptr<double>(), value.data_ptr<double>() + value.numel());
      } else if (name == "/scale") {
        own.scale = value.item<double>();
      } else {
        own.parameters[name] = value;
      }
    }
    merge(ended, own);
  }
  return ended;
}

std::string checkpoints() {
  return (ParentTempDir::path() / "checkpoints").string();
}

class KilledRun : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint,
    KilledRun,
    ::testing::Values("sharding4_3", "dp2_bf16"),
    [](const auto& of) { return std::string(of.param); });

// 20 steps are 10, an asynchronous save, 2 more beside it, SIGKILL for all,
// and 10 more steps by new processes. Every rank draws from torch's generator.
TEST_P(KilledRun, ContinuesExactly) {
  const ParentTempDir parent;
  testing::ProcessRuns runs;
  const Layout layout = layout_named(GetParam());
  const RunOptions options{.dropout = 0.1, .weights = true};
  runs.run(layout.ranks, [&](World&) {
    GptRun run(layout, options);
    run.train(10);
    write_end("through", train_to_end(run, 10));
  });
  runs.run_failing(layout.ranks, [&](World&) {
    GptRun run(layout, options);
    run.train(10);
    State state = run.state();
    Checkpointer saver(checkpoints(), {.async = true});
    saver.save(state, 10);
    run.train(2);
    saver.wait();
    ::raise(SIGKILL);
  });
  runs.run(layout.ranks, [&](World&) {
    GptRun run(layout, options);
    State state = run.state();
    Checkpointer saver(checkpoints(), {.async = true});
    const auto report = saver.load_newest(state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 10);
    write_end("resumed", train_to_end(run, 10));
  });
  expect_same_bits(
      read_ends("resumed", layout.ranks), read_ends("through", layout.ranks));
}

struct ProcessPair {
  const char* from;
  const char* to;
};

constexpr ProcessPair kPairs[] = {
    {"sharding4_3", "dp3"},
    {"sharding4_3", "pp2_vpp2"},
    {"sharding4_3", "sharding2_3_mp2"},
    {"sharding4_2", "pp2_sharding2_3"},
    {"dp2_sharding2_3", "mp4_tokens"},
    {"dp4", "sep2_mp2"},
    {"dp3", "sharding4_3"},
    {"dp3", "mp2"},
    {"dp3", "pp2"},
    {"mp2", "dp3"},
    {"mp2", "pp2"},
    {"mp2", "sharding4_1"},
    {"mp4_tokens", "dp3"},
    {"sharding2_3_mp2", "pp2"},
    {"sep2_mp2", "mp2"},
    {"grid2x2", "sharding4_3"},
    {"pp2", "mp2"},
    {"pp2", "dp3"},
    {"pp2", "pp4_zbh1"},
    {"pp2_vpp2", "sharding4_2"},
    {"pp4_zbh1", "dp2_sharding2_3"},
    {"pp2_sharding2_3", "mp2"},
    {"ep2", "dp2_ep2"},
    {"ep2_mp2", "ep2"}};

Layout plain_layout(const std::string& name) {
  return without_extras(layout_named(name));
}

std::string saved_in(const std::string& layout) {
  return checkpoints() + '-' + layout;
}

std::string name_of(const ProcessPair& pair) {
  return str(pair.from, "-to-", pair.to);
}

// Trains in each layout that has as many ranks, and saves on the way.
void train_sources(int num_ranks) {
  std::set<std::string> done;
  for (const ProcessPair& pair : kPairs) {
    const Layout from = plain_layout(pair.from);
    if (from.ranks == num_ranks && done.insert(from.name).second) {
      GptRun run(from);
      run.train(3);
      State state = run.state();
      save(saved_in(from.name), state, 3);
      write_end(from.name, train_to_end(run, 3));
    }
  }
}

void resume_targets(int num_ranks) {
  for (const ProcessPair& pair : kPairs) {
    const Layout from = plain_layout(pair.from);
    const Layout to = plain_layout(pair.to);
    if (to.ranks == num_ranks) {
      SCOPED_TRACE(name_of(pair));
      GptRun run(to);
      State state = run.state();
      const LoadReport report =
          load(saved_in(from.name), state, {.rename = renaming(from, to)});
      EXPECT_EQ(report.step, 3);
      write_end(name_of(pair), train_to_end(run, 3));
    }
  }
}

// Processes start slowly: those of one number run all layouts of that number.
TEST(ProcessReshard, ContinuesInOtherLayouts) {
  const ParentTempDir parent;
  testing::ProcessRuns runs;
  for (const int num_ranks : {2, 3, 4}) {
    runs.run(num_ranks, [&](World&) { train_sources(num_ranks); });
  }
  for (const int num_ranks : {2, 3, 4}) {
    runs.run(num_ranks, [&](World&) { resume_targets(num_ranks); });
  }
  for (const ProcessPair& pair : kPairs) {
    SCOPED_TRACE(name_of(pair));
    expect_close(
        read_ends(name_of(pair), plain_layout(pair.to).ranks),
        read_ends(pair.from, plain_layout(pair.from).ranks));
  }
}

} // namespace
} // namespace argosy::checkpoint
