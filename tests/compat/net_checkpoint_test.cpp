// Modules saved whole and in slices, and loaded in other layouts, on thread
// ranks.

#include "argosy/compat/net_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/compat/redundancy.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using std::filesystem::path;
using ::testing::HasSubstr;
using testing::run_ranks;

// Values that depend on `seed` and on the element alone.
at::Tensor numbers(const std::vector<std::int64_t>& shape, double seed) {
  std::int64_t count = 1;
  for (const auto size : shape) {
    count *= size;
  }
  return torch::arange(count, torch::kFloat).reshape(shape) + seed;
}

struct NetImpl : torch::nn::Module {
  explicit NetImpl(double seed) {
    register_module("fc", fc);
    register_buffer("steps", steps);
    const torch::NoGradGuard no_grad;
    fc->weight.copy_(numbers({6, 5}, 100 * seed));
    fc->bias.copy_(numbers({6}, 1000 * seed));
    steps.fill_(static_cast<int>(seed));
  }
  torch::nn::Linear fc{5, 6};
  at::Tensor steps = torch::zeros({}, torch::kLong);
};
TORCH_MODULE(Net);

void shard(Net& net, const ProcessMesh& mesh, const Placements& weight) {
  shard_tensor_(net->fc->weight, mesh, weight);
}

void expect_seed(Net& net, double seed) {
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(
      torch::equal(full_tensor(net->fc->weight), numbers({6, 5}, 100 * seed)));
  EXPECT_TRUE(
      torch::equal(full_tensor(net->fc->bias), numbers({6}, 1000 * seed)));
  EXPECT_EQ(net->steps.item<int>(), static_cast<int>(seed));
}

path rank_file(const TempDir& folder, int rank) {
  return folder.path() / str("rank_", rank) / "net-1_1.safetensors";
}

TEST(NetCheckpoint, IntegratedFilesAreWhole) {
  const TempDir folder;
  run_ranks(4, [&](World& world) {
    Net net(3);
    shard(net, ProcessMesh::of_shape({2, 2}), {Shard(0), Shard(1)});
    save_checkpoint(*net, rank_file(folder, world.rank()));
  });
  for (int rank = 0; rank < 4; ++rank) {
    Net net(0);
    EXPECT_EQ(
        load_param_into_net(
            *net, load_checkpoint(rank_file(folder, rank)), true),
        NotLoaded{});
    expect_seed(net, 3);
  }
  // Each rank of another layout takes its part of the whole.
  run_ranks(3, [&](World&) {
    Net net(0);
    shard(net, ProcessMesh::of_shape({3}), {Shard(1)});
    load_param_into_net(*net, load_checkpoint(rank_file(folder, 0)));
    expect_seed(net, 3);
  });
}

void save_slices(const TempDir& folder, const SaveCheckpointOptions& options) {
  run_ranks(4, [&](World& world) {
    Net net(7);
    shard(net, ProcessMesh::of_shape({2, 2}), {Replicate(), Shard(0)});
    save_checkpoint(*net, rank_file(folder, world.rank()), options);
    if (world.rank() == 0) {
      save_strategy(folder.path() / "strategy.json", strategy_of(*net));
    }
  });
}

TEST(NetCheckpoint, SlicesLoadIntoAnyLayout) {
  const TempDir folder;
  save_slices(folder, {.integrated_save = false});
  std::vector<path> files;
  for (int rank = 0; rank < 4; ++rank) {
    files.push_back(rank_file(folder, rank));
  }
  EXPECT_EQ(
      load_checkpoint(files[1]).at("fc.weight").info.shape,
      (dtensor::Shape{3, 5}));
  const path strategy = folder.path() / "strategy.json";
  Net alone(0);
  EXPECT_EQ(
      load_distributed_checkpoint(*alone, files, strategy, true), NotLoaded{});
  expect_seed(alone, 7);
  run_ranks(3, [&](World&) {
    Net net(0);
    shard(net, ProcessMesh::of_shape({3}), {Shard(1)});
    load_distributed_checkpoint(*net, files, strategy);
    expect_seed(net, 7);
  });
}

TEST(NetCheckpoint, EachSliceIsSavedOnceAndFoundAgain) {
  const TempDir folder;
  save_slices(folder, {.integrated_save = false, .remove_redundancy = true});
  std::size_t saved = 0;
  for (int rank = 0; rank < 4; ++rank) {
    saved += load_checkpoint(rank_file(folder, rank)).size();
  }
  EXPECT_EQ(saved, 4u); // two halves of the weight, bias, steps
  run_ranks(4, [&](World& world) {
    Net net(0);
    shard(net, ProcessMesh::of_shape({2, 2}), {Replicate(), Shard(0)});
    const auto dict =
        load_without_redundancy(folder.path(), strategy_of(*net), world.rank());
    EXPECT_EQ(load_param_into_net(*net, dict, true), NotLoaded{});
    expect_seed(net, 7);
  });
}

TEST(NetCheckpoint, NamesMatchByTheirEndsAndTypesAreConverted) {
  const TempDir folder;
  Net net(2);
  net->to(torch::kDouble);
  const path file = folder.path() / "a.safetensors";
  save_checkpoint(*net, file);
  ParameterDict dict;
  for (auto& [name, tensor] : load_checkpoint(file)) {
    dict["model." + name] = tensor;
  }
  dict["epoch_num"] = {
      {"epoch_num", checkpoint::DType::kU8, {}}, {std::byte{1}}};
  Net other(0);
  EXPECT_EQ(load_param_into_net(*other, dict), (NotLoaded{{}, {"epoch_num"}}));
  expect_seed(other, 2);
}

TEST(NetCheckpoint, AFailedLoadChangesNothing) {
  const TempDir folder;
  Net net(2);
  const path file = folder.path() / "a.safetensors";
  save_checkpoint(*net, file);
  auto dict = load_checkpoint(file);
  dict.at("fc.weight").info.shape = {5, 6};
  Net other(4);
  try {
    load_param_into_net(*other, dict);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("fc.weight"));
    EXPECT_THAT(error.what(), HasSubstr("[5, 6]"));
  }
  expect_seed(other, 4);
  net->to(torch::kDouble);
  save_checkpoint(*net, file);
  EXPECT_THROW(
      load_param_into_net(*other, load_checkpoint(file), true),
      InvalidArgument);
  expect_seed(other, 4);
}

TEST(NetCheckpoint, SlicesOfTensorsMerge) {
  const at::Tensor whole = numbers({4, 6}, 0);
  ParallelStrategy strategy;
  strategy.layouts["w"] = ParallelLayout::of({2, 3}, {1, 0});
  std::vector<at::Tensor> slices;
  for (int rank = 0; rank < 6; ++rank) {
    slices.push_back(
        whole.narrow(0, rank / 3 * 2, 2).narrow(1, rank % 3 * 2, 2));
  }
  EXPECT_TRUE(
      torch::equal(merge_sliced_parameter("w", slices, strategy), whole));
  EXPECT_TRUE(torch::equal(
      merge_sliced_parameter(
          "w", {whole.narrow(0, 0, 1), whole.narrow(0, 1, 3)}),
      whole));
}

} // namespace
} // namespace argosy
