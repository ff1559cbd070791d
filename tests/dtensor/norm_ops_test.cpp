// Rules of normalisations against the unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::OpFunction;
using argosy::testing::run_ranks;
using argosy::testing::same;
using argosy::testing::Tensors;

TEST(OpsRanks, LayerNorm) {
  check_op(
      [](const Tensors& x) { return torch::layer_norm(x[0], {3}); },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::layer_norm(x[0], {3}, x[1], x[2]); },
      {leaf({5, 3}), leaf({3}, 1), leaf({3}, 2)});
  check_op(
      [](const Tensors& x) {
        return torch::layer_norm(x[0], {2, 3}, x[1]);
      },
      {leaf({4, 2, 3}), leaf({2, 3}, 1)});
}

TEST(OpsRanks, RootMeanSquareNorm) {
  check_op(
      [](const Tensors& x) {
        return x[0] * (x[0].pow(2).mean(-1, true) + 1e-5).rsqrt() * x[1];
      },
      {leaf({4, 2}), leaf({2}, 1)});
}

TEST(OpsRanks, GroupNorm) {
  check_op(
      [](const Tensors& x) { return torch::group_norm(x[0], 2, x[1], x[2]); },
      {leaf({3, 4, 2}), leaf({4}, 1), leaf({4}, 2)});
  check_op(
      [](const Tensors& x) { return torch::group_norm(x[0], 4); },
      {leaf({3, 8, 2, 1})});
}

OpFunction batch_norm(bool training) {
  return [training](const Tensors& x) {
    return torch::batch_norm(
        x[0],
        x.size() > 1 ? x[1] : at::Tensor(),
        x.size() > 2 ? x[2] : at::Tensor(),
        training ? at::Tensor() : torch::tensor({1.0f, 0.5f, -1.0f}),
        training ? at::Tensor() : torch::tensor({1.0f, 2.0f, 3.0f}),
        training,
        0.1,
        1e-5,
        false);
  };
}

TEST(OpsRanks, BatchNorm) {
  for (const bool training : {true, false}) {
    check_op(batch_norm(training), {leaf({5, 3})});
    check_op(batch_norm(training), {leaf({3, 3, 2, 2})});
    check_op(
        batch_norm(training), {leaf({5, 3, 2}), leaf({3}, 1), leaf({3}, 2)});
  }
}

// The running statistics after a step in training, wherever they are.
TEST(OpsRanks, BatchNormUpdatesRunningStatistics) {
  for (const int kind : {0, 1}) {
    check_op(
        [kind](const Tensors& x) {
          const Tensors running{x[1].clone(), x[2].clone()};
          torch::batch_norm(
              x[0], {}, {}, running[0], running[1], true, 0.1, 1e-5, false);
          return running[static_cast<std::size_t>(kind)];
        },
        {exact_values({5, 3, 2}), exact_values({3}, 1), exact_values({3}, 2)});
  }
}

TEST(OpsRanks, BatchNormUpdatesPlainBuffers) {
  run_ranks(3, [](World&) {
    const at::Tensor x = exact_values({5, 2});
    const auto after = [](const at::Tensor& input) {
      at::Tensor mean = torch::zeros(2);
      at::Tensor variance = torch::ones(2);
      torch::batch_norm(input, {}, {}, mean, variance, true, 0.1, 1e-5, false);
      return torch::stack({mean, variance});
    };
    for (const Placement placement :
         {Placement(Shard(0)), Placement(Shard(1)), Placement()}) {
      EXPECT_TRUE(same(
          after(shard_tensor(x, ProcessMesh::of_shape({3}), {placement})),
          after(x)));
    }
  });
}

// Samples cut: nothing is sent, and the gradients of the weights are Partial.
TEST(OpsRanks, LayerNormOfCutSamplesSendsNothing) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x =
        shard_tensor(exact_values({2, 4, 3}), mesh, {Shard(1)});
    const at::Tensor weight =
        shard_tensor(exact_values({3}, 1), mesh, {Replicate()});
    x.requires_grad_();
    weight.requires_grad_();
    torch::layer_norm(x, {3}, weight).sum().backward();
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(1)});
    EXPECT_EQ(placements_of(weight.grad()), Placements{Partial()});
    EXPECT_EQ(get_group(0)->traffic().total().calls, 0u);
  });
}

} // namespace
} // namespace argosy
