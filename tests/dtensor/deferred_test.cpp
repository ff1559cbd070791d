// Modules that are built without memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using argosy::testing::run_ranks;
using ::testing::HasSubstr;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("linear", torch::nn::Linear(6, 4));
    register_module(
        "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
    register_module(
        "words",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 4).padding_idx(2)));
    register_module("conv", torch::nn::Conv2d(3, 4, 3));
    register_buffer("ones", torch::ones({3}));
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : parameters()) {
      each.mul_(2);
    }
  }
};
TORCH_MODULE(Net);

Net deferred_net() {
  dtensor_manual_seed(5);
  const DeferredInit deferred;
  return {};
}

// All parameters and buffers, sharded in dim 0 or not at all.
std::map<std::string, at::Tensor> values(const ProcessMesh& mesh, bool cut) {
  Net net = deferred_net();
  std::map<std::string, at::Tensor> all;
  const Placement placement = cut ? Placement(Shard(0)) : Placement();
  for (const auto& list : {net->named_parameters(), net->named_buffers()}) {
    for (const auto& each : list) {
      EXPECT_TRUE(is_deferred(each.value())) << each.key();
      shard_tensor_(each.value(), mesh, {placement});
      EXPECT_FALSE(is_deferred(each.value()));
      EXPECT_EQ(placements_of(each.value()), Placements{placement});
      all[each.key()] = full_tensor(each.value().detach());
    }
  }
  return all;
}

std::vector<at::Tensor> all_of(const Net& net) {
  std::vector<at::Tensor> all = net->parameters();
  for (const at::Tensor& buffer : net->buffers()) {
    all.push_back(buffer);
  }
  return all;
}

// Two models, and what is drawn after them, in whatever order they become real.
TEST(Deferred, MaterializesWhatATorchModelWouldBe) {
  torch::manual_seed(7);
  const Net first;
  const Net second;
  const at::Tensor next = torch::rand({3});
  run_ranks(1, [&](World&) {
    for (const bool in_order : {true, false}) {
      torch::manual_seed(7);
      Net a = deferred_net();
      Net b = deferred_net();
      materialize(in_order ? *a : *b);
      materialize(in_order ? *b : *a);
      const auto expect_same = [](const Net& got, const Net& expected) {
        const auto values = all_of(expected);
        const auto made = all_of(got);
        for (std::size_t i = 0; i < values.size(); ++i) {
          EXPECT_FALSE(is_deferred(made[i]));
          EXPECT_TRUE(torch::equal(made[i], values[i])) << i;
          EXPECT_EQ(made[i].requires_grad(), values[i].requires_grad());
        }
      };
      expect_same(a, first);
      expect_same(b, second);
      EXPECT_TRUE(torch::equal(torch::rand({3}), next));
    }
    {
      const DeferredInit deferred;
      torch::nn::Linear linear(2, 2);
      EXPECT_THAT(
          testing::refusal([&] { materialize(*linear); }),
          HasSubstr("within the scope of DeferredInit"));
    }
  });
}

TEST(DeferredRanks, AModelIsTheSameOnEveryMesh) {
  std::map<std::string, at::Tensor> expected;
  run_ranks(
      1, [&](World&) { expected = values(ProcessMesh::of_shape({1}), false); });
  EXPECT_TRUE(torch::equal(expected["ones"], torch::ones({3})));
  EXPECT_TRUE(torch::equal(expected["norm.weight"], torch::full({4}, 2.0f)));
  EXPECT_TRUE(torch::equal(expected["words.weight"][2], torch::zeros({4})));
  EXPECT_NE(expected["words.weight"][1][0].item<float>(), 0);
  const double bound = 2 / std::sqrt(6);
  EXPECT_LE(expected["linear.weight"].abs().max().item<double>(), bound);
  EXPECT_GT(expected["linear.weight"].std().item<double>(), bound / 4);
  for (const int n : {2, 3}) {
    run_ranks(n, [&](World&) {
      for (const bool cut : {false, true}) {
        for (const auto& [name, value] :
             values(ProcessMesh::of_shape({n}), cut)) {
          EXPECT_TRUE(torch::equal(value, expected[name])) << name;
        }
      }
    });
  }
}

TEST(DeferredRanks, NoMemoryIsTakenBeforeAndAPartAfter) {
  run_ranks(2, [](World&) {
    torch::nn::Linear layer = nullptr;
    {
      const DeferredInit deferred;
      layer = torch::nn::Linear(1 << 20, 1 << 20); // 4 TB
    }
    EXPECT_EQ(layer->weight.sizes(), at::IntArrayRef({1 << 20, 1 << 20}));
    EXPECT_TRUE(layer->weight.requires_grad());
    EXPECT_TRUE(is_deferred(layer->weight)); // which this host cannot hold
    shard_tensor_(layer->bias, ProcessMesh::of_shape({2}), {Shard(0)});
    EXPECT_EQ(to_local(layer->bias).numel(), 1 << 19);
    EXPECT_TRUE(layer->bias.requires_grad());
  });
}

TEST(DeferredRanks, TrainAfterwards) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    Net net = deferred_net();
    const at::Tensor weight = net->named_parameters()["linear.weight"];
    EXPECT_THAT(
        [&] {
          torch::matmul(torch::ones({2, 6}), weight.t());
        },
        ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("shard it first")));
    shard_tensor_(weight, mesh, {Shard(0)});
    torch::matmul(torch::ones({2, 6}), weight.t()).sum().backward();
    EXPECT_TRUE(
        torch::equal(full_tensor(weight.grad()), torch::full({4, 6}, 2.0f)));
  });
}

TEST(DeferredRanks, RefuseToTellValues) {
  run_ranks(1, [](World&) {
    const DeferredInit deferred;
    const at::Tensor x = torch::rand({3});
    EXPECT_THAT(
        [&] { x.sum().item(); },
        ::testing::ThrowsMessage<InvalidArgument>(
            HasSubstr("needs values of a tensor")));
    EXPECT_THROW(DeferredInit(), InvalidArgument);
    EXPECT_EQ(torch::arange(3).sum().item<int>(), 3); // of plain ones
  });
}

// What was refused leaves no trace: random values stay those of the program.
TEST(DeferredRanks, ARefusedOpChangesNoRandomValues) {
  run_ranks(1, [](World&) {
    const auto values = [](bool is_refused) {
      dtensor_manual_seed(5);
      at::Tensor tensor;
      {
        const DeferredInit deferred;
        tensor = torch::empty({3});
        if (is_refused) {
          EXPECT_THROW(tensor.nonzero(), InvalidArgument);
        }
        tensor.normal_();
      }
      shard_tensor_(tensor, ProcessMesh::of_shape({1}), {Replicate()});
      return to_local(tensor);
    };
    EXPECT_TRUE(torch::equal(values(true), values(false)));
  });
}

} // namespace
} // namespace argosy
