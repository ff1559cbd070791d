// Rules of look-ups against the unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/nn/functional/embedding.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::run_ranks;
using argosy::testing::same;
using argosy::testing::Tensors;

namespace F = torch::nn::functional;

at::Tensor some_indices(at::IntArrayRef shape, std::int64_t rows) {
  return (exact_values(shape, 4) + 5).to(torch::kLong).remainder(rows);
}

TEST(OpsRanks, Embedding) {
  check_op(
      [](const Tensors& x) { return torch::embedding(x[0], x[1]); },
      {leaf({5, 3}), some_indices({4}, 5)});
  check_op(
      [](const Tensors& x) { return torch::embedding(x[0], x[1]); },
      {leaf({3, 4}), some_indices({2, 3}, 3)});
  check_op(
      [](const Tensors& x) {
        return torch::embedding(x[0], torch::tensor({2, 0, 2, 4}), 2);
      },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::embedding(x[0], x[1], -1, true); },
      {leaf({5, 3}), some_indices({6}, 3)});
}

TEST(OpsRanks, EmbeddingBag) {
  check_op(
      [](const Tensors& x) {
        return F::embedding_bag(some_indices({2, 3}, 4), x[0]);
      },
      {leaf({4, 3})});
}

TEST(OpsRanks, SecondDerivativeOfEmbedding) {
  check_op(
      [](const Tensors& x) {
        const at::Tensor weight = x[0].detach().requires_grad_();
        const at::Tensor y = torch::embedding(weight, x[1], 1);
        return torch::autograd::grad({(y * x[2])}, {weight}, {x[2]}, {}, true)
            .front();
      },
      {exact_values({4, 2}), some_indices({3}, 4), leaf({3, 2}, 1)});
}

TEST(OpsRanks, EmbeddingRefuses) {
  run_ranks(2, [](World&) {
    const at::Tensor weight = shard_tensor(
        exact_values({4, 2}), ProcessMesh::of_shape({2}), {Shard(0)});
    EXPECT_THROW(
        torch::embedding(weight, torch::tensor({1, 4})), InvalidArgument);
    EXPECT_THROW(
        torch::embedding(weight, torch::tensor({1}), -1, false, true),
        InvalidArgument);
  });
}

// Rows cut: one all_reduce of what is looked up, and none for the gradient.
TEST(OpsRanks, EmbeddingOfCutRowsReducesOnce) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor weight =
        shard_tensor(exact_values({8, 4}), mesh, {Shard(0)});
    weight.requires_grad_();
    const at::Tensor y = torch::embedding(weight, some_indices({2, 3}, 8));
    EXPECT_EQ(placements_of(y), Placements{Partial()});
    reshard(y, mesh, {Replicate()}).sum().backward();
    EXPECT_EQ(placements_of(weight.grad()), Placements{Shard(0)});
    EXPECT_EQ(get_group(0)->traffic().total().calls, 1u);
  });
}

TEST(OpsRanks, EmbeddingOfCutIndicesSendsNothing) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor weight =
        shard_tensor(exact_values({8, 4}), mesh, {Replicate()});
    weight.requires_grad_();
    const at::Tensor indices =
        shard_tensor(some_indices({4, 3}, 8), mesh, {Shard(0)});
    const at::Tensor y = torch::embedding(weight, indices);
    EXPECT_EQ(placements_of(y), Placements{Shard(0)});
    y.sum().backward();
    EXPECT_EQ(placements_of(weight.grad()), Placements{Partial()});
    EXPECT_EQ(get_group(0)->traffic().total().calls, 0u);
  });
}

} // namespace
} // namespace argosy
