// Unchanged modules and optimizers of LibTorch on DTensors: several steps equal
// those of one process, with the collectives that theory says.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "argosy/mesh/rank_mesh.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::exact_values;
using argosy::testing::run_ranks;
using argosy::testing::same;
using comm::OpKind;

struct Mlp : torch::nn::Module {
  torch::nn::Linear up{nullptr};
  torch::nn::Linear down{nullptr};

  Mlp() {
    up = register_module("up", torch::nn::Linear(4, 8));
    down = register_module("down", torch::nn::Linear(8, 4));
    const torch::NoGradGuard no_grad;
    int seed = 0;
    for (const at::Tensor& parameter : parameters()) {
      parameter.copy_(exact_values(parameter.sizes(), seed++) / 8);
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    return down->forward(torch::gelu(up->forward(x)));
  }
};

using Plan = std::map<std::string, Placements>;

// The parameters become DTensors for all who hold them.
void shard_module(
    torch::nn::Module& module, const ProcessMesh& mesh, const Plan& plan) {
  const Placements replicated(
      static_cast<std::size_t>(mesh.ndim()), Replicate());
  for (const auto& each : module.named_parameters()) {
    const auto found = plan.find(each.key());
    const at::Tensor sharded = shard_tensor(
        each.value().detach(),
        mesh,
        found == plan.end() ? replicated : found->second);
    each.value().unsafeGetTensorImpl()->shallow_copy_from(
        sharded.getIntrusivePtr());
  }
}

at::Tensor loss_of(Mlp& model, const at::Tensor& x) {
  return (model.forward(x) - 1).pow(2).sum();
}

template <typename Optimizer, typename Options>
std::vector<at::Tensor> train(
    Mlp& model, const at::Tensor& x, Options options) {
  Optimizer optimizer(model.parameters(), options);
  std::vector<at::Tensor> results;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = loss_of(model, x);
    loss.backward();
    optimizer.step();
    results.push_back(full_tensor(loss.detach()));
  }
  for (const at::Tensor& parameter : model.parameters()) {
    results.push_back(full_tensor(parameter.detach()));
  }
  return results;
}

template <typename Optimizer, typename Options>
void check_training(
    const ProcessMesh& mesh,
    const Placements& data,
    const Plan& plan,
    const Options& options) {
  run_ranks(mesh.size(), [&](World&) {
    const at::Tensor x = exact_values({6, 4}) / 4;
    Mlp plain;
    const auto expected = train<Optimizer>(plain, x, options);
    Mlp sharded;
    shard_module(sharded, mesh, plan);
    const auto results =
        train<Optimizer>(sharded, shard_tensor(x, mesh, data), options);
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(same(results[i], expected[i])) << i << "\n"
                                                 << results[i] << expected[i];
    }
    for (const auto& each : plan) {
      EXPECT_EQ(
          placements_of(sharded.named_parameters()[each.first]), each.second);
    }
  });
}

void check_all_optimizers(
    const ProcessMesh& mesh, const Placements& data, const Plan& plan) {
  check_training<torch::optim::SGD>(
      mesh, data, plan, torch::optim::SGDOptions(0.01).momentum(0.9));
  check_training<torch::optim::AdamW>(
      mesh, data, plan, torch::optim::AdamWOptions(0.01));
}

const Plan kTensorParallel{
    {"up.weight", {Shard(0)}},
    {"up.bias", {Shard(0)}},
    {"down.weight", {Shard(1)}}};

TEST(TrainingRanks, DataParallel) {
  for (const int n : {2, 4}) {
    check_all_optimizers(ProcessMesh::of_shape({n}), {Shard(0)}, {});
  }
}

TEST(TrainingRanks, TensorParallel) {
  for (const int n : {2, 3}) {
    check_all_optimizers(
        ProcessMesh::of_shape({n}), {Replicate()}, kTensorParallel);
  }
}

TEST(TrainingRanks, FullySharded) {
  check_all_optimizers(
      ProcessMesh::of_shape({2}),
      {Shard(0)},
      {{"up.weight", {Shard(0)}},
       {"up.bias", {Shard(0)}},
       {"down.weight", {Shard(0)}},
       {"down.bias", {Shard(0)}}});
}

TEST(TrainingRanks, DataAndTensorParallel) {
  check_all_optimizers(
      ProcessMesh::of_shape({2, 2}, {"dp", "mp"}),
      {Shard(0), Replicate()},
      {{"up.weight", {Replicate(), Shard(0)}},
       {"up.bias", {Replicate(), Shard(0)}},
       {"down.weight", {Replicate(), Shard(1)}}});
}

std::uint64_t calls(OpKind kind) {
  return get_group(0)->traffic().of(kind).calls;
}

// One all_reduce forward, for what the second layer gives, and one backward,
// for the gradient of the input.
TEST(TrainingRanks, TensorParallelReducesTwice) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    Mlp model;
    shard_module(model, mesh, kTensorParallel);
    const at::Tensor x =
        shard_tensor(exact_values({6, 4}), mesh, {Replicate()});
    x.requires_grad_();
    const at::Tensor loss = loss_of(model, x);
    EXPECT_EQ(placements_of(loss), Placements{Replicate()});
    EXPECT_EQ(calls(OpKind::AllReduce), 1u);
    loss.backward();
    EXPECT_EQ(placements_of(x.grad()), Placements{Partial()});
    full_tensor(x.grad());
    EXPECT_EQ(calls(OpKind::AllReduce), 2u);
    EXPECT_EQ(get_group(0)->traffic().total().calls, 2u);
  });
}

// The sequence is cut where tensor parallelism is not: what was all_reduce is
// all_gather and reduce_scatter.
TEST(TrainingRanks, SequenceParallelGathersAndScatters) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    Mlp model;
    shard_module(model, mesh, kTensorParallel);
    const at::Tensor x =
        shard_tensor(exact_values({2, 6, 4}), mesh, {Shard(1)});
    const at::Tensor whole = reshard(x, mesh, {Replicate()});
    const at::Tensor y = reshard(model.forward(whole), mesh, {Shard(1)});
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_EQ(calls(OpKind::AllGather), 1u);
    EXPECT_EQ(calls(OpKind::ReduceScatter), 1u);
    EXPECT_EQ(get_group(0)->traffic().total().calls, 2u);
  });
}

// A layer that is sharded as the batch is: its weight is gathered when it is
// used, and its gradient scattered.
TEST(TrainingRanks, FullyShardedGathersParameters) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    torch::nn::Linear layer(torch::nn::LinearOptions(4, 8).bias(false));
    shard_module(*layer, mesh, {{"weight", {Shard(0)}}});
    const at::Tensor x = shard_tensor(exact_values({64, 4}), mesh, {Shard(0)});
    const at::Tensor y = layer->forward(x);
    EXPECT_EQ(placements_of(y), Placements{Shard(0)});
    EXPECT_EQ(calls(OpKind::AllGather), 1u);
    y.sum().backward();
    const at::Tensor& grad = layer->weight.grad();
    EXPECT_EQ(placements_of(grad), Placements{Partial()});
    {
      const torch::NoGradGuard no_grad;
      layer->weight.sub_(grad);
    }
    EXPECT_EQ(placements_of(layer->weight), Placements{Shard(0)});
    EXPECT_EQ(calls(OpKind::ReduceScatter), 1u);
    EXPECT_EQ(get_group(0)->traffic().total().calls, 2u);
  });
}

} // namespace
} // namespace argosy
