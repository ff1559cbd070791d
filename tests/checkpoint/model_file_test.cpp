// A model alone in a folder: torch::save() refuses one of DTensors,
// save_model() writes it, and load_model() reads that and files of others.

#include "argosy/checkpoint/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/convert/convert.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/comm/ops.h"
#include "argosy/common/fault_point.h"
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

int num_checkpoints(const std::string& folder) {
  return static_cast<int>(checkpoint::Folder(fs::open(folder))
                              .list(Deadline::after(std::chrono::seconds(9)))
                              .size());
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
  const auto path = (dir.path() / "model").string();
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
    load_model(*alone, path);
    expect_equal_states(*alone, *make_net());
  }
  EXPECT_EQ(num_checkpoints(path), 1);
}

// The old one stays until the new one is there.
TEST(ModelFile, ASaveThatFailsLeavesTheOneBefore) {
  const TempDir dir;
  torch::nn::Sequential net = make_net();
  save_model(*net, dir.path());
  {
    const torch::NoGradGuard no_grad;
    net->parameters()[0].zero_();
  }
  set_fault("checkpoint.before_manifest:throw");
  EXPECT_THAT(
      refusal<CheckpointError>([&] { save_model(*net, dir.path()); }),
      HasSubstr("before_manifest"));
  set_fault("");
  load_model(*net, dir.path());
  expect_equal_states(*net, *make_net());
}

// Of a checkpoint of the whole training, the model.
TEST(ModelFile, ReadsTheModelOfAWholeState) {
  const TempDir dir;
  torch::nn::Sequential net = make_net();
  torch::optim::Adam adam(net->parameters());
  net->forward(torch::ones({3, 4})).sum().backward();
  adam.step();
  checkpoint::State state{net, adam};
  checkpoint::save(dir.path(), state, 7);
  torch::nn::Sequential other = make_net();
  load_model(*other, dir.path());
  expect_equal_states(*other, *net);
  torch::nn::Sequential more = make_net();
  more->push_back(torch::nn::Linear(4, 4));
  EXPECT_THAT(
      refusal<CheckpointError>([&] { load_model(*more, dir.path()); }),
      HasSubstr("lacks model/3.bias"));
}

TEST(ModelFileRanks, ReadsOnAnyMeshInPlace) {
  const TempDir dir;
  const auto path = (dir.path() / "model.pt").string();
  torch::save(make_net(), path);
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

TEST(ModelFileRanks, SavesPlainModules) {
  const TempDir dir;
  run_ranks(2, [&](World&) {
    torch::nn::Sequential net = make_net();
    save_model(*net, dir.path());
    {
      const torch::NoGradGuard no_grad;
      net->parameters()[0].zero_();
    }
    load_model(*net, dir.path());
    expect_equal_states(*net, *make_net());
  });
}

TEST(ModelFileRanks, AllRanksLearnThatItCannotBeWritten) {
  run_ranks(2, [&](World&) {
    torch::nn::Sequential net = make_net();
    parallelize_net(*net, ProcessMesh::of_shape({2}, {"mp"}));
    EXPECT_THAT(
        refusal<CheckpointError>([&] { save_model(*net, "/proc/nowhere/x"); }),
        HasSubstr("/proc/nowhere"));
  });
}

TEST(ModelFileRanks, RefusesAnotherShape) {
  const TempDir dir;
  const auto path = (dir.path() / "model.pt").string();
  torch::nn::Sequential other(torch::nn::Linear(4, 5));
  torch::save(other, path);
  run_ranks(2, [&](World& world) {
    // One of the ranks has another model; all learn of it.
    torch::nn::Sequential net(torch::nn::Linear(4, 5 + world.rank()));
    const auto before = net->parameters()[0].clone();
    EXPECT_THAT(
        refusal<CheckpointError>([&] { load_model(*net, path); }),
        HasSubstr("shape [5, 4] in the checkpoint, expected [6, 4]"));
    EXPECT_TRUE(before.equal(net->parameters()[0]));
  });
}

// Values that a file of another type has are converted.
TEST(ModelFile, ReadsSafetensorsOfAnotherType) {
  const TempDir dir;
  const auto folder = (dir.path() / "model").string();
  const auto file = (dir.path() / "model.safetensors").string();
  torch::nn::Sequential net = make_net();
  net->to(torch::kBFloat16);
  save_model(*net, folder);
  checkpoint::write_safetensors(
      checkpoint::for_export(checkpoint::open_tensors(folder), false),
      fs::open(file),
      {});
  torch::nn::Sequential whole(
      torch::nn::Linear(4, 6),
      torch::nn::BatchNorm1d(6),
      torch::nn::Linear(6, 4));
  load_model(*whole, file);
  net->to(torch::kFloat);
  expect_equal_states(*whole, *net);
}

} // namespace
} // namespace argosy
