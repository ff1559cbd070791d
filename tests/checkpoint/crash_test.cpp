// A checkpoint exists or it does not, whichever rank fails at whichever step of
// the protocol.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/file.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "tests/support/parent_temp_dir.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

namespace stdfs = std::filesystem;

// Where a fault can be, and whether the checkpoint is committed there.
struct Point {
  std::string name;
  bool only_first = false; // only the first rank comes there
  bool committed = false;
};

const std::vector<Point>& points() {
  static const std::vector<Point> all = {
      {"checkpoint.begun"},
      {"checkpoint.write"},
      {"checkpoint.before_file"},
      {"checkpoint.rank_done"},
      {"checkpoint.before_manifest", true},
      {"checkpoint.before_latest", true, true},
      {"checkpoint.committed", true, true},
      {"checkpoint.half_removed", true, true}};
  return all;
}

// A parameter whose values are the step, and a step that fills it.
struct Counter {
  torch::nn::Linear net{4, 3};
  State state;

  Counter() { state.add("model", *net); }
  void set(double step) {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : net->parameters()) {
      each.fill_(step);
    }
  }
  double value() const { return net->weight.sum().item<double>() / 12; }
};

// The newest checkpoint loads and is whole; no other folder and no partial file
// remains after the next save.
void check_folder(const std::string& folder, double expected) {
  Counter counter;
  Checkpointer saver(folder, {.keep = {.last = 2}});
  const auto report = saver.load_newest(counter.state);
  ASSERT_TRUE(report);
  EXPECT_EQ(counter.value(), expected);
  EXPECT_EQ(static_cast<double>(report->step), expected);
  saver.save(counter.state, 100);
  std::vector<std::string> names;
  for (const auto& entry : stdfs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) {
      names.push_back(stdfs::relative(entry.path(), folder).string());
    }
  }
  const Deadline deadline = Deadline::after(std::chrono::seconds(9));
  const auto found = Folder(fs::open(folder)).list(deadline);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_THAT(
      found,
      ::testing::Each(::testing::Field(&FoundCheckpoint::committed, true)));
  for (const std::string& name : names) {
    EXPECT_TRUE(
        name == "latest" || name == ".lock" || name.ends_with(".safetensors") ||
        name.ends_with("manifest.json"))
        << name;
  }
}

// Saves steps 1 and 2, and step 3 with a fault.
void save_with_fault(
    const std::string& folder,
    const Point& point,
    const std::string& action,
    bool is_victim,
    bool async) {
  Counter counter;
  Checkpointer saver(
      folder,
      {.async = async,
       .keep = {.last = 2},
       .timeout = std::chrono::seconds(20)});
  for (int step = 1; step <= 3; ++step) {
    counter.set(step);
    if (step == 3 && is_victim) {
      saver.wait();
      set_fault((point.name + ':' + action).c_str());
    }
    saver.save(counter.state, step);
  }
  saver.wait();
}

class Throwing : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint,
    Throwing,
    ::testing::Range<std::size_t>(0, points().size()),
    [](const auto& of) {
      return points()[of.param].name.substr(sizeof("checkpoint.") - 1);
    });

// An error at any step is thrown on all ranks, and training can go on.
TEST_P(Throwing, LeavesTheLastCheckpoint) {
  const Point& point = points()[GetParam()];
  if (point.name == "checkpoint.half_removed") {
    return; // a failure to remove old ones is logged, not thrown
  }
  for (const bool async : {false, true}) {
    const TempDir folder;
    std::atomic<int> told = 0;
    testing::run_ranks(2, [&](World& world) {
      const std::string error = testing::refusal<Error>([&] {
        save_with_fault(
            folder.path(), point, "throw", world.rank() == 0, async);
      });
      told += error.find(point.name) != std::string::npos ? 1 : 0;
      EXPECT_THAT(error, ::testing::HasSubstr("rank")) << world.rank();
    });
    set_fault("");
    EXPECT_EQ(told, 2);
    check_folder(folder.path(), point.committed ? 3 : 2);
  }
}

class Killed : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint,
    Killed,
    ::testing::Range<std::size_t>(0, points().size()),
    [](const auto& of) {
      return points()[of.param].name.substr(sizeof("checkpoint.") - 1);
    });

// SIGKILL at any step. Alternates between the ranks, and between synchronous
// and asynchronous saves.
TEST_P(Killed, LeavesTheLastCheckpoint) {
  const testing::ParentTempDir parent;
  const std::string folder = parent.path() / "run";
  const Point& point = points()[GetParam()];
  const int victim = point.only_first ? 0 : static_cast<int>(GetParam() % 2);
  EXPECT_THROW(
      testing::run_process_ranks(
          2,
          [&](World& world) {
            save_with_fault(
                folder,
                point,
                "kill",
                world.rank() == victim,
                GetParam() % 3 == 0);
          }),
      RankFailed);
  check_folder(folder, point.committed ? 3 : 2);
}

// A checkpoint whose files go is none from the beginning: what is left of it
// after a kill must not be taken for one.
TEST(Removal, TakesTheManifestFirst) {
  const TempDir folder;
  Counter counter;
  Checkpointer saver(folder.path(), {.keep = {.last = 2}});
  saver.save(counter.state, 1);
  saver.save(counter.state, 2);
  set_fault("checkpoint.half_removed:throw");
  saver.save(counter.state, 3);
  set_fault("");
  const Folder found(fs::open(folder.path().string()));
  const Deadline deadline = Deadline::after(std::chrono::seconds(9));
  EXPECT_THAT(
      found.list(deadline),
      ::testing::ElementsAre(
          FoundCheckpoint{1, folder_name(1), false},
          FoundCheckpoint{2, folder_name(2), true},
          FoundCheckpoint{3, folder_name(3), true}));
  saver.save(counter.state, 4);
  EXPECT_EQ(found.list(deadline).size(), 2u);
}

} // namespace
} // namespace argosy::checkpoint
