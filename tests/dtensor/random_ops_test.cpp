// Random ops draw the same whatever the mesh and the placement.

#include <gtest/gtest.h>
#include <torch/nn/functional/dropout.h>

#include <cmath>
#include <mutex>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "argosy/dtensor/tensor/random_fill.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::all_placements;
using argosy::testing::exact_values;
using argosy::testing::OpFunction;
using argosy::testing::run_op;
using argosy::testing::run_ranks;
using argosy::testing::same;

namespace F = torch::nn::functional;

// Two calls, which must differ, and the gradient.
std::vector<at::Tensor> results_of(
    const OpFunction& op,
    const at::Tensor& input,
    const ProcessMesh& mesh,
    const Placements& placements) {
  dtensor_manual_seed(5);
  const at::Tensor x = shard_tensor(input.detach(), mesh, placements)
                           .requires_grad_(input.requires_grad());
  const auto result = run_op(op, {x});
  std::vector<at::Tensor> all{
      full_tensor(result.value.detach()), full_tensor(op({x}).detach())};
  for (const at::Tensor& gradient : result.gradients) {
    all.push_back(full_tensor(gradient));
  }
  return all;
}

// Gives what is drawn.
at::Tensor check_random(const OpFunction& op, const at::Tensor& input) {
  std::vector<at::Tensor> expected;
  run_ranks(1, [&](World&) {
    expected = results_of(op, input, ProcessMesh::of_shape({1}), {Replicate()});
  });
  EXPECT_FALSE(same(expected[0], expected[1]));
  for (const ProcessMesh& mesh :
       {ProcessMesh::of_shape({2}),
        ProcessMesh::of_shape({3}),
        ProcessMesh::of_shape({2, 2})}) {
    run_ranks(mesh.size(), [&](World&) {
      for (const Placements& placements :
           all_placements(static_cast<int>(input.dim()), mesh.ndim())) {
        const auto results = results_of(op, input, mesh, placements);
        ASSERT_EQ(results.size(), expected.size());
        for (std::size_t i = 0; i < results.size(); ++i) {
          EXPECT_TRUE(same(results[i], expected[i]))
              << mesh << " " << placements << " " << i << "\n"
              << results[i] << expected[i];
        }
      }
    });
  }
  return expected[0];
}

at::Tensor ones(at::IntArrayRef shape) {
  return torch::ones(shape).requires_grad_();
}

TEST(RandomRanks, Like) {
  const at::Tensor x = torch::zeros({7, 5});
  check_random([](const auto& in) { return torch::rand_like(in[0]); }, x);
  check_random([](const auto& in) { return torch::randn_like(in[0]); }, x);
  const at::Tensor integers = check_random(
      [](const auto& in) {
        return torch::randint_like(in[0], 3, 9, torch::kLong);
      },
      x);
  EXPECT_EQ(integers.min().item<int>(), 3);
  EXPECT_EQ(integers.max().item<int>(), 8);
  check_random([](const auto& in) { return torch::randint_like(in[0], 9); }, x);
  check_random([](const auto& in) { return torch::bernoulli(in[0], 0.5); }, x);
}

TEST(RandomRanks, Fill) {
  const at::Tensor x = torch::zeros({20, 50});
  const at::Tensor exponential = check_random(
      [](const auto& in) { return in[0].clone().exponential_(2); }, x);
  EXPECT_NEAR(exponential.mean().item<double>(), 0.5, 0.05);
  EXPECT_GT(exponential.min().item<double>(), 0);
  const at::Tensor geometric = check_random(
      [](const auto& in) { return in[0].clone().geometric_(0.25); }, x);
  EXPECT_NEAR(geometric.mean().item<double>(), 4, 0.4);
  EXPECT_EQ(geometric.min().item<double>(), 1);
  const at::Tensor cauchy = check_random(
      [](const auto& in) { return in[0].clone().cauchy_(3, 0.5); }, x);
  EXPECT_NEAR(cauchy.median().item<double>(), 3, 0.1);
  const at::Tensor log_normal = check_random(
      [](const auto& in) { return in[0].clone().log_normal_(1, 0.5); }, x);
  EXPECT_NEAR(log_normal.log().mean().item<double>(), 1, 0.1);
}

TEST(RandomRanks, OfTensors) {
  const at::Tensor p = torch::arange(35).reshape({7, 5}) / 34;
  const at::Tensor drawn =
      check_random([](const auto& in) { return torch::bernoulli(in[0]); }, p);
  EXPECT_EQ(drawn[0][0].item<float>(), 0);
  EXPECT_EQ(drawn[6][4].item<float>(), 1);
  check_random(
      [](const auto& in) { return torch::zeros_like(in[0]).bernoulli_(in[0]); },
      p);
  check_random([](const auto& in) { return at::normal(in[0], 2.0); }, p);
  check_random([](const auto& in) { return at::normal(1.0, in[0]); }, p);
  check_random([](const auto& in) { return at::normal(in[0], in[0]); }, p);
}

TEST(RandomRanks, Multinomial) {
  const at::Tensor weights = exact_values({6, 5}).abs() + 0.5;
  for (const bool replacement : {true, false}) {
    check_random(
        [=](const auto& in) { return in[0].multinomial(4, replacement); },
        weights);
  }
  // Weights of 0 are never picked, and the others in proportion.
  const at::Tensor counts =
      check_random(
          [](const auto& in) { return in[0].multinomial(4000, true); },
          torch::tensor({0.0f, 1.0f, 3.0f, 0.0f}))
          .bincount({}, 4);
  EXPECT_EQ(counts[0].item<int>() + counts[3].item<int>(), 0);
  EXPECT_NEAR(counts[1].item<int>(), 1000, 100);
  const at::Tensor picked = check_random(
      [](const auto& in) { return in[0].multinomial(1); },
      torch::tensor({0.0f, 1.0f, 3.0f}).expand({4000, 3}).contiguous());
  EXPECT_NEAR((picked == 1).sum().item<int>(), 1000, 100);
  EXPECT_EQ((picked == 0).sum().item<int>(), 0);
}

TEST(RandomRanks, Dropout) {
  const at::Tensor dropped = check_random(
      [](const auto& in) { return torch::dropout(in[0], 0.25, true); },
      ones({20, 50}));
  EXPECT_NEAR(dropped.mean().item<double>(), 1, 0.1);
  EXPECT_NEAR((dropped == 0).sum().item<double>(), 250, 50);
  check_random(
      [](const auto& in) {
        return std::get<0>(torch::native_dropout(in[0], 0.25, true));
      },
      ones({7, 5}));
  check_random(
      [](const auto& in) { return torch::alpha_dropout(in[0], 0.5, true); },
      ones({7, 5}));
  check_random(
      [](const auto& in) { return in[0].clone().mul_(2).bernoulli_(0.5); },
      torch::ones({7, 5}));
}

// Whole channels.
TEST(RandomRanks, FeatureDropout) {
  const at::Tensor dropped = check_random(
      [](const auto& in) { return torch::feature_dropout(in[0], 0.5, true); },
      ones({5, 4, 3}));
  EXPECT_TRUE(torch::equal(dropped.amin(2), dropped.amax(2)));
  check_random(
      [](const auto& in) {
        return torch::feature_alpha_dropout(in[0], 0.5, true);
      },
      ones({5, 4, 3}));
  check_random(
      [](const auto& in) {
        at::Tensor y = in[0].clone();
        return torch::feature_dropout_(y, 0.5, true);
      },
      ones({5, 4, 2}));
}

TEST(RandomRanks, DropoutSendsNothing) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = shard_tensor(ones({4, 6}), mesh, {Shard(1)});
    F::dropout(x, F::DropoutFuncOptions().p(0.5)).sum().backward();
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(1)});
    EXPECT_EQ(get_group(0)->traffic().total().calls, 0u);
  });
}

// What cannot be drawn by place is refused.
TEST(RandomRanks, Refuses) {
  run_ranks(2, [](World&) {
    const at::Tensor x = shard_tensor(
        torch::ones({4, 6}), ProcessMesh::of_shape({2}), {Shard(1)});
    EXPECT_THROW(torch::poisson(x), InvalidArgument);
    EXPECT_THROW(torch::rrelu(x, 0.1, 0.3, true), InvalidArgument);
    EXPECT_THROW(
        torch::bernoulli(x, at::detail::createCPUGenerator()), InvalidArgument);
  });
}

// The least and the greatest number that the generator can give.
TEST(RandomOps, ExponentialIsAboveZeroAndFinite) {
  constexpr std::uint32_t kAll = 0xffffffff;
  for (const double rate : {0.5, 1.0, 3.0}) {
    const auto draw = dtensor::exponential(rate);
    EXPECT_GT(static_cast<float>(draw({0, 0, 0, 0})), 0);
    EXPECT_TRUE(std::isfinite(draw({kAll, kAll, kAll, kAll})));
  }
}

} // namespace
} // namespace argosy
