// Functions that LibTorch takes apart into ops with rules: einsum, tensordot,
// and recurrent layers with batch or hidden units cut.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dtensor/op_checks.h"
#include "tests/dtensor/traffic.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::check_op_on;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::num_collectives;
using argosy::testing::run_ranks;
using argosy::testing::Tensors;

TEST(OpsRanks, Einsum) {
  check_op(
      [](const Tensors& x) {
        return torch::einsum("ij,jk->ik", {x[0], x[1]});
      },
      {leaf({4, 3}, 1), leaf({3, 5}, 2)});
  check_op(
      [](const Tensors& x) {
        return torch::einsum("bij,bkj->bik", {x[0], x[1]});
      },
      {leaf({4, 2, 3}, 1), leaf({4, 3, 3}, 2)});
  check_op(
      [](const Tensors& x) {
        return torch::tensordot(x[0], x[1], {1, 0}, {0, 1});
      },
      {leaf({4, 3, 2}, 1), leaf({3, 4, 2}, 2)});
}

// As a product of matrices does.
TEST(OpsRanks, EinsumSendsNothing) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor rows =
        shard_tensor(exact_values({4, 6}), mesh, {Shard(0)});
    const at::Tensor weight =
        shard_tensor(exact_values({6, 8}), mesh, {Replicate()});
    const at::Tensor columns = reshard(weight, mesh, {Shard(1)});
    EXPECT_EQ(
        placements_of(torch::einsum("ij,jk->ik", {rows, weight})),
        Placements{Shard(0)});
    EXPECT_EQ(
        placements_of(torch::einsum(
            "ij,jk->ik", {reshard(weight, mesh, {Replicate()}).t(), rows.t()})),
        Placements{Shard(1)});
    EXPECT_EQ(placements_of(columns), Placements{Shard(1)});
    EXPECT_EQ(num_collectives(), 0u);
  });
}

constexpr std::int64_t kHidden = 4;

// Input, then for one layer: weights of input and state, and both biases.
Tensors recurrent_inputs(std::int64_t gates) {
  const auto small = [](at::IntArrayRef shape, int seed) {
    return (exact_values(shape, seed) / 16).requires_grad_();
  };
  return {
      small({3, 4, 2}, 1),
      small({gates * kHidden, 2}, 2),
      small({gates * kHidden, kHidden}, 3),
      small({gates * kHidden}, 4),
      small({gates * kHidden}, 5)};
}

at::Tensor lstm(const Tensors& x) {
  const at::Tensor state = torch::zeros({1, 4, kHidden});
  const Tensors weights(x.begin() + 1, x.end());
  return std::get<0>(torch::lstm(
      x[0], {state, state}, weights, true, 1, 0.0, true, false, false));
}

at::Tensor gru(const Tensors& x) {
  const Tensors weights(x.begin() + 1, x.end());
  return std::get<0>(torch::gru(
      x[0],
      torch::zeros({1, 4, kHidden}),
      weights,
      true,
      1,
      0.0,
      true,
      false,
      false));
}

using argosy::testing::expect_same;
using argosy::testing::fresh;
using argosy::testing::run_op;

// With the input so placed, and all weights so.
void check_recurrent(
    const argosy::testing::OpFunction& op,
    std::int64_t gates,
    const Placements& data,
    const Placements& weights) {
  run_ranks(2, [&](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const Tensors inputs = recurrent_inputs(gates);
    const auto expected = run_op(op, fresh(inputs));
    Tensors sharded;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      sharded.push_back(
          shard_tensor(inputs[i].detach(), mesh, i == 0 ? data : weights)
              .requires_grad_());
    }
    const auto result = run_op(op, sharded);
    expect_same(result.value, expected.value, "output");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      expect_same(
          result.gradients[i], expected.gradients[i], argosy::str("of ", i));
    }
  });
}

TEST(OpsRanks, RecurrentLayers) {
  for (const Placement data :
       {Placement(Replicate()), Placement(Shard(1)), Placement(Shard(0))}) {
    for (const Placement weights :
         {Placement(Replicate()), Placement(Shard(0))}) {
      check_recurrent(lstm, 4, {data}, {weights});
      check_recurrent(gru, 3, {data}, {weights});
    }
  }
}

// A batch that is cut needs nothing of others.
TEST(OpsRanks, RecurrentLayersOfABatchSendNothing) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    Tensors x;
    for (const at::Tensor& each : recurrent_inputs(4)) {
      const Placement placed =
          x.empty() ? Placement(Shard(1)) : Placement(Replicate());
      x.push_back(shard_tensor(each.detach(), mesh, {placed}).requires_grad_());
    }
    const at::Tensor y = lstm(x);
    EXPECT_EQ(placements_of(y), Placements{Shard(1)});
    y.pow(2).sum().backward();
    EXPECT_EQ(placements_of(x[1].grad()), Placements{Partial()});
    EXPECT_EQ(num_collectives(), 0u);
  });
}

} // namespace
} // namespace argosy
