// Stage 3 on DTensors: parameters come in buckets, before they are used, and
// the results are those of one process.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/optim/sgd.h"
#include "argosy/semi_auto/gather_buckets.h"
#include "argosy/semi_auto/shard_layer.h"
#include "argosy/semi_auto/shard_optimizer.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using argosy::testing::run_ranks;

constexpr int kLayers = 4;
constexpr std::size_t kWeightBytes = 8 * 8 * 4;

struct NetImpl : torch::nn::Module {
  std::vector<torch::nn::Linear> layers;

  NetImpl() {
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(register_module(
          str("layer", i),
          torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false))));
      layers.back()->weight.copy_(
          (torch::arange(64) * 7 + i).remainder(11).view({8, 8}) / 11.0 - 0.4);
    }
  }

  // Calls `after` behind each layer.
  at::Tensor forward(
      at::Tensor x, const std::function<void()>& after = [] {}) {
    for (auto& layer : layers) {
      x = torch::tanh(layer(x));
      after();
    }
    return x;
  }
};
TORCH_MODULE(Net);

// So many rows that ops gather weights rather than activations.
at::Tensor batch() {
  const at::Tensor numbers = torch::arange(512).view({64, 8}).remainder(5);
  return numbers.to(torch::kFloat) / 50;
}

ShardingStage stage3(std::size_t bucket_bytes) {
  ShardingStage stage = ShardingStage3("dp");
  stage.bucket_bytes = bucket_bytes;
  return stage;
}

struct Gathers {
  std::vector<std::size_t> after_layers; // so far in the step
  std::size_t in_step = 0;
  std::vector<at::Tensor> parameters; // after all steps
};

// What the last of three steps gathers.
Gathers train(std::size_t bucket_bytes) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
  Net net;
  shard_layer(*net, mesh);
  optim::SGD sgd(net->parameters(), optim::SGDOptions(0.1));
  ShardOptimizer optimizer = shard_optimizer(sgd, stage3(bucket_bytes));
  const at::Tensor x = shard_tensor(batch(), mesh, {Shard(0)});
  Gathers gathers;
  for (int step = 0; step < 3; ++step) {
    CommDebug debug;
    gathers.after_layers.clear();
    net->forward(
           x,
           [&] { gathers.after_layers.push_back(debug.count("all_gather")); })
        .pow(2)
        .sum()
        .backward();
    gathers.in_step = debug.count("all_gather");
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const at::Tensor& each : net->parameters()) {
    gathers.parameters.push_back(full_tensor(each.detach()).clone());
  }
  return gathers;
}

std::vector<at::Tensor> train_alone() {
  Net net;
  torch::optim::SGD sgd(net->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    net(batch()).pow(2).sum().backward();
    sgd.step();
  }
  return net->parameters();
}

void expect_close(
    const std::vector<at::Tensor>& got,
    const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-5, 1e-6)) << i;
  }
}

using Counts = std::vector<std::size_t>;

// In backward the first layer's weight is not used: the input needs no
// gradient.
TEST(GatherAheadRanks, WithoutBucketsEachComesWhenItIsUsed) {
  const auto expected = train_alone();
  run_ranks(2, [&](World&) {
    const Gathers gathers = train(0);
    EXPECT_EQ(gathers.after_layers, (Counts{1, 2, 3, 4}));
    EXPECT_EQ(gathers.in_step, 7u);
    expect_close(gathers.parameters, expected);
  });
}

// The first layer starts the gathering of the second layer's weight, and so on;
// the last two are still there when backward needs them.
TEST(GatherAheadRanks, TheNextBucketIsUnderWayWhileOneIsUsed) {
  const auto expected = train_alone();
  run_ranks(2, [&](World&) {
    const Gathers gathers = train(kWeightBytes);
    EXPECT_EQ(gathers.after_layers, (Counts{2, 3, 4, 4}));
    EXPECT_EQ(gathers.in_step, 5u);
    expect_close(gathers.parameters, expected);
  });
}

TEST(GatherAheadRanks, ABucketComesInOneCall) {
  const auto expected = train_alone();
  run_ranks(2, [&](World&) {
    const Gathers pairs = train(2 * kWeightBytes);
    EXPECT_EQ(pairs.after_layers, (Counts{2, 2, 2, 2}));
    EXPECT_EQ(pairs.in_step, 2u);
    expect_close(pairs.parameters, expected);
    const Gathers all = train(kLayers * kWeightBytes);
    EXPECT_EQ(all.after_layers, (Counts{1, 1, 1, 1}));
    EXPECT_EQ(all.in_step, 1u);
    expect_close(all.parameters, expected);
  });
}

// What a user writes to parameters between two passes counts.
TEST(GatherAheadRanks, ChangedShardsAreGatheredAgain) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    Net net;
    shard_layer(*net, mesh);
    Net alone;
    optim::SGD sgd(net->parameters(), optim::SGDOptions(0.1));
    ShardOptimizer optimizer = shard_optimizer(sgd, stage3(kWeightBytes));
    const torch::NoGradGuard no_grad;
    const at::Tensor x = shard_tensor(batch(), mesh, {Shard(0)});
    for (int pass = 0; pass < 4; ++pass) {
      const at::Tensor y = net(x);
      EXPECT_TRUE(torch::allclose(full_tensor(y), alone(batch()), 1e-5, 1e-6));
      for (Net* each : {&net, &alone}) {
        (*each)->layers[pass]->weight.mul_(0.5);
      }
    }
  });
}

TEST(GatherAheadRanks, FusionIdsMakeBuckets) {
  run_ranks(1, [](World&) {
    Net net;
    const auto parameters = net->parameters();
    EXPECT_EQ(semi_auto::buckets_of(parameters, 2 * kWeightBytes).size(), 2u);
    set_comm_fusion(parameters[0], 1);
    set_comm_fusion(parameters[3], 1);
    set_comm_fusion(parameters[2], 0);
    shard_layer(
        *net, ProcessMesh::of_shape({1}, {"dp"})); // DTensors keep their ids
    const auto buckets =
        semi_auto::buckets_of(net->parameters(), 4 * kWeightBytes);
    ASSERT_EQ(buckets.size(), 3u);
    EXPECT_TRUE(buckets[0][0].is_same(parameters[1]));
    EXPECT_TRUE(buckets[1][0].is_same(parameters[2]));
    EXPECT_EQ(buckets[2].size(), 2u);
  });
}

} // namespace
} // namespace argosy
