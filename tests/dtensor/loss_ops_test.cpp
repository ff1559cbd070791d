// Rules of losses against the unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::run_ranks;
using argosy::testing::Tensors;

namespace F = torch::nn::functional;

constexpr std::int64_t kReductions[] = {
    at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum};

// Each with uneven parts, and gradients of both tensors.
TEST(OpsRanks, LossesOfDifferences) {
  for (const std::int64_t reduction : kReductions) {
    const Tensors inputs{leaf({5, 3}), leaf({5, 3}, 1)};
    check_op(
        [=](const Tensors& x) { return at::mse_loss(x[0], x[1], reduction); },
        inputs);
    check_op(
        [=](const Tensors& x) {
          return at::smooth_l1_loss(x[0], x[1], reduction);
        },
        inputs);
    check_op(
        [=](const Tensors& x) { return at::huber_loss(x[0], x[1], reduction); },
        inputs);
    check_op(
        [=](const Tensors& x) { return at::l1_loss(x[0], x[1], reduction); },
        inputs);
    check_op(
        [=](const Tensors& x) {
          return at::soft_margin_loss(x[0], x[1].detach().sign(), reduction);
        },
        inputs);
  }
}

at::Tensor probabilities(at::IntArrayRef shape, int seed = 0) {
  return ((exact_values(shape, seed) + 6) / 12).requires_grad_();
}

TEST(OpsRanks, LossesOfProbabilities) {
  for (const std::int64_t reduction : kReductions) {
    check_op(
        [=](const Tensors& x) {
          return at::binary_cross_entropy(x[0], x[1].detach(), {}, reduction);
        },
        {probabilities({5, 3}), probabilities({5, 3}, 1)});
    check_op(
        [=](const Tensors& x) {
          return at::binary_cross_entropy(
              x[0], probabilities({4, 3}, 1).detach(), x[1], reduction);
        },
        {probabilities({4, 3}), exact_values({4, 3}, 2)});
    check_op(
        [=](const Tensors& x) {
          return at::binary_cross_entropy_with_logits(
              x[0], x[1].detach(), {}, {}, reduction);
        },
        {leaf({5, 3}), probabilities({5, 3}, 1)});
    check_op(
        [=](const Tensors& x) { return at::kl_div(x[0], x[1], reduction); },
        {leaf({4, 3}), probabilities({4, 3}, 1)});
  }
}

TEST(OpsRanks, BroadcastWeightsOfLosses) {
  check_op(
      [](const Tensors& x) {
        return at::binary_cross_entropy_with_logits(
            x[0], probabilities({5, 3}, 1).detach(), {}, x[1]);
      },
      {leaf({5, 3}), exact_values({3}, 2).abs()});
}

// Composites of other ops, and those that gather.
TEST(OpsRanks, OtherLosses) {
  check_op(
      [](const Tensors& x) {
        return F::cosine_embedding_loss(
            x[0], x[1], torch::tensor({1, -1, 1, 1}));
      },
      {leaf({4, 3}), leaf({4, 3}, 1)});
  check_op(
      [](const Tensors& x) {
        return F::triplet_margin_loss(x[0], x[1], x[0] + 1);
      },
      {leaf({4, 3}), leaf({4, 3}, 1)});
  check_op(
      [](const Tensors& x) {
        return F::multi_margin_loss(x[0], torch::tensor({1, 0, 2, 2}));
      },
      {leaf({4, 3})});
  check_op(
      [](const Tensors& x) { return F::poisson_nll_loss(x[0], x[1]); },
      {leaf({4, 3}), exact_values({4, 3}, 1).abs()});
}

// A mean over an uneven batch sends nothing; who wants the number reduces it.
TEST(OpsRanks, LossOfCutSamplesSendsNothing) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = shard_tensor(exact_values({5, 3}), mesh, {Shard(0)});
    x.requires_grad_();
    const at::Tensor loss = F::mse_loss(x, exact_values({5, 3}, 1));
    EXPECT_EQ(placements_of(loss), Placements{Partial()});
    loss.backward();
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(0)});
    EXPECT_EQ(get_group(0)->traffic().total().calls, 0u);
  });
}

} // namespace
} // namespace argosy
