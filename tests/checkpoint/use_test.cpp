// Ways to call save() and load(): those that should work, and those where ranks
// do not call alike, which must be an error on all of them and not a wait.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/file.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Filled {
  torch::nn::Linear net{8, 4};
  State state{net};

  explicit Filled(double value) {
    const torch::NoGradGuard no_grad;
    net->weight.fill_(value);
    net->bias.fill_(value);
  }
  bool is(double value) const {
    return net->weight.eq(value).all().item<bool>();
  }
};

TEST(Use, TheFolderOfOneCheckpointLoads) {
  const TempDir folder;
  const auto run = folder.path() / "run";
  testing::run_ranks(2, [&](World&) {
    for (int step = 1; step <= 2; ++step) {
      Filled filled(step);
      save(run, filled.state, step);
    }
  });
  std::filesystem::copy(run / "step-00000002", folder.path() / "best");
  const std::pair<std::string, double> places[] = {
      {run, 2},
      {run / "step-00000001", 1},
      {(run / "step-00000001").string() + '/', 1},
      {folder.path() / "best", 2}};
  for (const auto& [place, value] : places) {
    testing::run_ranks(2, [&, place = place, value = value](World&) {
      Filled filled(0);
      EXPECT_EQ(load(place, filled.state).step, value) << place;
      EXPECT_TRUE(filled.is(value)) << place;
    });
  }
}

TEST(Use, StepsOfRanksThatDifferAreRefused) {
  const TempDir folder;
  testing::run_ranks(2, [&](World& world) {
    Filled filled(1);
    EXPECT_THAT(
        testing::refusal<CheckpointError>(
            [&] { save(folder.path(), filled.state, 10 + world.rank()); }),
        HasSubstr("rank 0 saves step 10 and rank 1 step 11"));
    save(folder.path(), filled.state, 12); // goes on
  });
}

TEST(Use, ShapesOfRanksThatDifferAreRefused) {
  const TempDir folder;
  testing::run_ranks(2, [&](World& world) {
    torch::nn::Linear net(8 + world.rank(), 4);
    State state{net};
    EXPECT_THAT(
        testing::refusal<CheckpointError>(
            [&] { save(folder.path(), state, 1); }),
        AllOf(
            HasSubstr("ranks disagree about a tensor"),
            HasSubstr("model/weight")));
  });
}

// What only some ranks ask for wrongly is told to all.
TEST(Use, AKeyThatOneRankLacksIsToldToAll) {
  const TempDir folder;
  const std::vector<std::byte> bytes(32, std::byte{9});
  testing::run_ranks(2, [&](World& world) {
    Filled filled(1);
    save(folder.path(), filled.state, 1, {.key = Key(bytes)});
    LoadOptions options;
    if (world.rank() == 0) {
      options.key = Key(bytes);
    }
    EXPECT_THAT(
        testing::refusal<CheckpointError>(
            [&] { load(folder.path(), filled.state, options); }),
        AllOf(HasSubstr("rank 1"), HasSubstr("is encrypted")));
    options.key = Key(bytes);
    EXPECT_EQ(load(folder.path(), filled.state, options).step, 1);
  });
}

// What ranks behind the first have linked loads too.
TEST(Use, FrozenFilesOfAllRanksAreLinked) {
  const TempDir folder;
  testing::run_ranks(2, [&](World&) {
    torch::nn::Sequential net;
    for (int i = 0; i < 4; ++i) {
      net->push_back(torch::nn::Linear(8, 8));
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& each : net->parameters()) {
        each.fill_(3).set_requires_grad(false);
      }
    }
    State state{net};
    Checkpointer saver(folder.path());
    saver.save(state, 1);
    saver.save(state, 2);
    EXPECT_GT(saver.last_report()->linked_bytes, 0u);
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : net->parameters()) {
      each.zero_();
    }
    EXPECT_EQ(saver.load_newest(state)->step, 2);
    for (const at::Tensor& each : net->parameters()) {
      EXPECT_TRUE(each.eq(3).all().item<bool>());
    }
  });
  EXPECT_GT(
      std::filesystem::hard_link_count(
          folder.path() / "step-00000002" / "rank-00001-frozen-0.safetensors"),
      1u);
}

// What the copies may not take is written before save() returns. The rest waits
// for half a second here.
TEST(Use, ABudgetOfCopiesIsKept) {
  const TempDir folder;
  torch::nn::Sequential net;
  for (int i = 0; i < 16; ++i) {
    net->push_back(torch::nn::Linear(1024, 1024)); // 4 MB
  }
  State state{net};
  Checkpointer saver(folder.path(), {.async = true, .staging_bytes = 8 << 20});
  set_fault("checkpoint.begun:delay");
  saver.save(state, 1);
  std::uint64_t written = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.path() / "step-00000001")) {
    written += entry.file_size();
  }
  set_fault("");
  EXPECT_GT(written, 64u << 19); // some is in buffers still
  saver.wait();
  EXPECT_EQ(load(folder.path(), state).step, 1);
}

// A saver remembers its plan for as long as nothing changes: the states of an
// optimizer appear with its first step.
TEST(Use, TensorsThatAppearAreSaved) {
  const TempDir folder;
  testing::run_ranks(2, [&](World&) {
    torch::nn::Linear net(3, 2);
    for (const at::Tensor& each : net->parameters()) {
      torch::nn::init::constant_(each, 0.5); // alike on all ranks
    }
    torch::optim::Adam adam(net->parameters(), 0.1);
    State state{net, adam};
    Checkpointer saver(folder.path());
    saver.save(state, 1);
    net(torch::ones({1, 3})).sum().backward();
    adam.step();
    saver.save(state, 2);
    torch::nn::Linear other(3, 2);
    torch::optim::Adam its_adam(other->parameters(), 0.1);
    State its_state{other, its_adam};
    EXPECT_EQ(saver.load_newest(its_state)->step, 2);
    EXPECT_TRUE(other->weight.equal(net->weight));
    EXPECT_EQ(its_adam.state().size(), adam.state().size());
  });
}

} // namespace
} // namespace argosy::checkpoint
