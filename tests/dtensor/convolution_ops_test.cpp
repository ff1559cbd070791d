// Rules of convolution and pooling against the unsharded ops, over all
// placements.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dtensor/op_checks.h"
#include "tests/dtensor/traffic.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::num_collectives;
using argosy::testing::run_ranks;
using argosy::testing::Tensors;

TEST(OpsRanks, Convolution1d) {
  for (const std::int64_t stride : {1, 2, 3}) {
    check_op(
        [stride](const Tensors& x) {
          return torch::conv1d(x[0], x[1], {}, stride, stride - 1);
        },
        {leaf({2, 4, 9}, 1), leaf({4, 4, 3}, 2)});
  }
  check_op(
      [](const Tensors& x) { return torch::conv1d(x[0], x[1], x[2], 2, 2); },
      {leaf({2, 4, 9}, 1), leaf({4, 4, 3}, 2), leaf({4}, 3)});
  check_op(
      [](const Tensors& x) { return torch::conv1d(x[0], x[1], {}, 1, 4, 4); },
      {leaf({2, 2, 7}, 1), leaf({4, 2, 3}, 2)});
}

TEST(OpsRanks, Convolution2d) {
  check_op(
      [](const Tensors& x) {
        return torch::conv2d(x[0], x[1], x[2], {2, 1}, {1, 0}, {1, 2});
      },
      {leaf({2, 2, 6, 7}, 1), leaf({4, 2, 3, 2}, 2), leaf({4}, 3)});
  check_op(
      [](const Tensors& x) { return torch::conv2d(x[0], x[1], {}, 1, "same"); },
      {leaf({3, 3, 5, 4}, 1), leaf({2, 3, 3, 3}, 2)});
}

TEST(OpsRanks, ConvolutionOfGroups) {
  check_op(
      [](const Tensors& x) {
        return torch::conv1d(x[0], x[1], x[2], 1, 1, 1, 4);
      },
      {leaf({2, 4, 5}, 1), leaf({8, 1, 3}, 2), leaf({8}, 3)});
  check_op(
      [](const Tensors& x) {
        return torch::conv1d(x[0], x[1], {}, 1, 1, 1, 2);
      },
      {leaf({2, 4, 5}, 1), leaf({6, 2, 3}, 2)});
}

TEST(OpsRanks, Convolution3dAndTransposed) {
  check_op(
      [](const Tensors& x) { return torch::conv3d(x[0], x[1], {}, 1, 1); },
      {leaf({2, 2, 3, 4, 3}, 1), leaf({2, 2, 3, 3, 3}, 2)});
  check_op(
      [](const Tensors& x) {
        return torch::conv_transpose2d(x[0], x[1], x[2], 2, 1, 1);
      },
      {leaf({2, 4, 3, 3}, 1), leaf({4, 2, 3, 3}, 2), leaf({2}, 3)});
  check_op(
      [](const Tensors& x) {
        return torch::conv_transpose1d(x[0], x[1], {}, 2, 0, 0, 2);
      },
      {leaf({2, 4, 3}, 1), leaf({4, 2, 3}, 2)});
}

TEST(OpsRanks, Pooling) {
  const Tensors image{leaf({4, 3, 6, 6})};
  check_op([](const Tensors& x) { return torch::max_pool2d(x[0], 2); }, image);
  check_op(
      [](const Tensors& x) { return torch::avg_pool2d(x[0], 3, 2, 1); }, image);
  check_op(
      [](const Tensors& x) {
        return torch::adaptive_avg_pool2d(x[0], {2, 3});
      },
      image);
  check_op(
      [](const Tensors& x) {
        return torch::adaptive_avg_pool2d(x[0], {1, 1});
      },
      image);
  check_op(
      [](const Tensors& x) {
        return std::get<0>(torch::adaptive_max_pool2d(x[0], {2, 2}));
      },
      image);
  check_op(
      [](const Tensors& x) {
        return torch::upsample_nearest2d(x[0], {12, 8});
      },
      image);
  check_op(
      [](const Tensors& x) {
        return torch::upsample_bilinear2d(x[0], {9, 9}, false);
      },
      image);
  check_op(
      [](const Tensors& x) {
        return torch::reflection_pad2d(x[0], {1, 2, 0, 1});
      },
      image);
  check_op(
      [](const Tensors& x) { return torch::max_pool1d(x[0], 2); },
      {leaf({4, 3, 6})});
}

// Rows of an image are cut: each rank gets a row of each neighbour, and gives
// back its gradient.
TEST(OpsRanks, HalosAreAllThatIsSent) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x =
        shard_tensor(exact_values({1, 2, 64, 16}), mesh, {Shard(2)})
            .requires_grad_();
    const at::Tensor weight =
        shard_tensor(exact_values({2, 2, 3, 3}), mesh, {Replicate()})
            .requires_grad_();
    const at::Tensor y = torch::conv2d(x, weight, {}, 1, 1);
    EXPECT_EQ(placements_of(y), Placements{Shard(2)});
    EXPECT_EQ(num_collectives(), 1u);
    EXPECT_EQ(get_group(0)->traffic().total().bytes, 2u * 16u * sizeof(float));
    torch::relu(y).pow(2).sum().backward();
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(2)});
    EXPECT_EQ(placements_of(weight.grad()), Placements{Partial()});
  });
}

TEST(OpsRanks, ConvolutionOfABatchSendsNothing) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x =
        shard_tensor(exact_values({4, 2, 6, 6}), mesh, {Shard(0)})
            .requires_grad_();
    const at::Tensor weight =
        shard_tensor(exact_values({2, 2, 3, 3}), mesh, {Replicate()})
            .requires_grad_();
    const at::Tensor y =
        torch::max_pool2d(torch::conv2d(x, weight, {}, 1, 1), 2);
    y.pow(2).sum().backward();
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(0)});
    EXPECT_EQ(placements_of(weight.grad()), Placements{Partial()});
    EXPECT_EQ(num_collectives(), 0u);
  });
}

} // namespace
} // namespace argosy
