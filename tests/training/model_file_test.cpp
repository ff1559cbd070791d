// A module of DTensors in a file: torch::save() refuses it, save_model() writes
// what torch::save() writes on one process, and load_model() reads that.

#include "argosy/training/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "argosy/comm/ops.h"
#include "argosy/common/file.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/dtensor/op_checks.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using ::testing::AllOf;
using testing::exact_values;
using ::testing::HasSubstr;
using testing::refusal;
using testing::run_ranks;

// With a buffer, and values that are the same on all ranks.
torch::nn::Sequential make_net() {
  torch::nn::Sequential net(
      torch::nn::Linear(4, 6),
      torch::nn::BatchNorm1d(6),
      torch::nn::Linear(6, 4));
  const torch::NoGradGuard no_grad;
  double seed = 0;
  for (const auto& states : {net->named_parameters(), net->named_buffers()}) {
    for (const auto& item : states) {
      item.value().copy_(exact_values(item.value().sizes().vec()) + ++seed);
    }
  }
  return net;
}

void parallelize_net(torch::nn::Module& net, const ProcessMesh& mesh) {
  parallelize(
      net,
      mesh,
      {.mp_config = {{"0", ColWiseParallel()}, {"2", RowWiseParallel()}}});
}

void expect_equal_states(
    const torch::nn::Module& found, const torch::nn::Module& expected) {
  const auto compare = [](const auto& all, const auto& others) {
    for (const auto& item : all) {
      EXPECT_TRUE(torch::equal(
          full_tensor(item.value().detach()), others[item.key()].detach()))
          << item.key();
    }
  };
  compare(found.named_parameters(), expected.named_parameters());
  compare(found.named_buffers(), expected.named_buffers());
}

TEST(ModelFileRanks, TorchSaveRefusesWhatHasNoMemory) {
  run_ranks(2, [](World&) {
    const auto says_what_to_do = AllOf(
        HasSubstr("DTensor of shape [6, 4], [S(0)]"),
        HasSubstr("full_tensor()"),
        HasSubstr("save_model()"));
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    const at::Tensor x = shard_tensor(exact_values({6, 4}), mesh, {Shard(0)});
    std::ostringstream file;
    EXPECT_THAT(refusal([&] { torch::save(x, file); }), says_what_to_do);
    EXPECT_THAT(
        refusal([&] { torch::save(x.variable_data(), file); }),
        says_what_to_do);
    torch::nn::Sequential net = make_net();
    parallelize_net(*net, mesh);
    EXPECT_THAT(refusal([&] { torch::save(net, file); }), says_what_to_do);
    torch::optim::Adam adam(
        std::vector<at::Tensor>{x.detach().clone().requires_grad_()});
    adam.param_groups()[0].params()[0].sum().backward();
    adam.step();
    EXPECT_THAT(refusal([&] { torch::save(adam, file); }), says_what_to_do);
  });
}

TEST(ModelFileRanks, WritesWhatOneProcessReads) {
  const TempDir dir;
  const auto path = dir.path() / "model.pt";
  for (const ProcessMesh& mesh :
       {ProcessMesh::of_shape({2}, {"mp"}),
        ProcessMesh::of_shape({2, 2}, {"dp", "mp"})}) {
    run_ranks(mesh.size(), [&](World&) {
      torch::nn::Sequential net = make_net();
      parallelize_net(*net, mesh);
      save_model(*net, path);
    });
    torch::nn::Sequential alone(
        torch::nn::Linear(4, 6),
        torch::nn::BatchNorm1d(6),
        torch::nn::Linear(6, 4));
    torch::load(alone, path.string());
    expect_equal_states(*alone, *make_net());
  }
}

TEST(ModelFileRanks, ReadsOnAnyMeshInPlace) {
  const TempDir dir;
  const auto path = dir.path() / "model.pt";
  torch::save(make_net(), path.string());
  run_ranks(3, [&](World&) {
    torch::nn::Sequential net = make_net();
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : net->parameters()) {
      each.zero_();
    }
    parallelize_net(*net, ProcessMesh::of_shape({3}, {"mp"}));
    const auto held = net->parameters();
    load_model(*net, path);
    expect_equal_states(*net, *make_net());
    EXPECT_EQ(placements_of(held[0]), Placements{Shard(0)});
    EXPECT_TRUE(torch::equal(
        full_tensor(held[0]), make_net()->parameters()[0].detach()));
  });
}

// torch::load() takes the file, and each rank its parts.
TEST(ModelFileRanks, TorchLoadReadsInPlace) {
  const TempDir dir;
  const auto path = (dir.path() / "model.pt").string();
  torch::save(make_net(), path);
  torch::nn::Sequential other(
      torch::nn::Linear(4, 5),
      torch::nn::BatchNorm1d(5),
      torch::nn::Linear(5, 4));
  torch::save(other, path + ".other");
  run_ranks(3, [&](World&) {
    torch::nn::Sequential net = make_net();
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : net->parameters()) {
      each.zero_();
    }
    parallelize_net(*net, ProcessMesh::of_shape({3}, {"mp"}));
    const auto held = net->parameters();
    torch::load(net, path);
    expect_equal_states(*net, *make_net());
    EXPECT_EQ(placements_of(held[0]), Placements{Shard(0)});
    EXPECT_TRUE(torch::equal(
        full_tensor(held[0]), make_net()->parameters()[0].detach()));
    EXPECT_THAT(
        refusal([&] { torch::load(net, path + ".other"); }),
        HasSubstr("expected [6, 4]"));
  });
}

TEST(ModelFileRanks, SavesPlainModulesFromTheFirstRank) {
  const TempDir dir;
  run_ranks(2, [&](World& world) {
    torch::nn::Sequential net = make_net();
    if (world.rank() == 1) {
      const torch::NoGradGuard no_grad;
      net->parameters()[0].zero_();
    }
    save_model(*net, dir.path() / "model.pt");
    load_model(*net, dir.path() / "model.pt");
    expect_equal_states(*net, *make_net());
  });
}

TEST(ModelFileRanks, AllRanksLearnThatItCannotBeWritten) {
  run_ranks(2, [&](World&) {
    torch::nn::Sequential net = make_net();
    parallelize_net(*net, ProcessMesh::of_shape({2}, {"mp"}));
    EXPECT_THAT(
        refusal<SystemError>([&] { save_model(*net, "/proc/nowhere/x.pt"); }),
        HasSubstr("[save_model]"));
  });
}

TEST(ModelFileRanks, RefusesAnotherShape) {
  const TempDir dir;
  const auto path = dir.path() / "model.pt";
  torch::nn::Sequential other(torch::nn::Linear(4, 5));
  torch::save(other, path.string());
  run_ranks(1, [&](World&) {
    torch::nn::Sequential net(torch::nn::Linear(4, 6));
    EXPECT_THAT(
        refusal([&] { load_model(*net, path); }),
        HasSubstr("shape [5, 4] in the file, expected [6, 4]"));
  });
}

} // namespace
} // namespace argosy
