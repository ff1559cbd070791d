// Rules of slices, lists and arrangements against the unsharded ops, over all
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

TEST(OpsRanks, Slices) {
  check_op(
      [](const Tensors& x) { return x[0].slice(0, 1, 4); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].slice(1, 0, 8, 3) * 2; },
      {leaf({3, 9})});
  check_op(
      [](const Tensors& x) { return x[0].slice(0, -4, -1, 2); },
      {leaf({7, 2})});
  check_op([](const Tensors& x) { return x[0].narrow(0, 2, 1); }, {leaf({5})});
  check_op([](const Tensors& x) { return x[0].slice(0, 4, 2); }, {leaf({5})});
  check_op([](const Tensors& x) { return x[0].select(0, -2); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].select(1, 1) + 1; },
      {leaf({2, 3, 4})});
}

TEST(OpsRanks, Splits) {
  for (const std::int64_t dim : {0, 1}) {
    check_op(
        [dim](const Tensors& x) {
          const auto parts = x[0].split(2, dim);
          return parts.front() * parts[1];
        },
        {leaf({4, 6})});
    check_op(
        [dim](const Tensors& x) {
          const auto parts = x[0].split_with_sizes({1, 4}, dim);
          return parts[1] * parts[0].sum();
        },
        {leaf({5, 5})});
    check_op(
        [dim](const Tensors& x) {
          const auto parts = x[0].chunk(3, dim);
          return parts[0] - parts[1];
        },
        {leaf({6, 6})});
    check_op(
        [dim](const Tensors& x) { return x[0].tensor_split(3, dim)[2] * 3; },
        {leaf({5, 7})});
    check_op(
        [dim](const Tensors& x) {
          const auto rows = x[0].unbind(dim);
          return rows[0] * rows[2];
        },
        {leaf({5, 3})});
  }
}

TEST(OpsRanks, Lists) {
  for (const std::int64_t dim : {0, 1}) {
    check_op(
        [dim](const Tensors& x) {
          return torch::cat({x[0], x[1]}, dim);
        },
        {leaf({3, 3}, 1), leaf({3, 3}, 2)});
    check_op(
        [dim](const Tensors& x) {
          return torch::stack({x[0], x[1]}, dim);
        },
        {leaf({3, 2}, 1), leaf({3, 2}, 2)});
  }
  check_op(
      [](const Tensors& x) {
        return torch::cat({x[0], x[1]});
      },
      {leaf({5}, 1), leaf({2}, 2)});
}

TEST(OpsRanks, Arrangements) {
  check_op([](const Tensors& x) { return x[0].flip({0}); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].flip({0, 1}); }, {leaf({4, 3})});
  check_op([](const Tensors& x) { return x[0].roll(2, 0); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].roll(1); }, {leaf({4, 3})});
  check_op(
      [](const Tensors& x) {
        return x[0].repeat({2, 1, 3});
      },
      {leaf({3, 2})});
  check_op([](const Tensors& x) { return x[0].tile({2, 1}); }, {leaf({3, 2})});
  check_op([](const Tensors& x) { return x[0].tril(); }, {leaf({2, 4, 4})});
  check_op([](const Tensors& x) { return x[0].triu(-1); }, {leaf({5, 4})});
  check_op(
      [](const Tensors& x) {
        return torch::constant_pad_nd(x[0], {1, 2, 3, 0}, 7);
      },
      {leaf({4, 3})});
  check_op(
      [](const Tensors& x) {
        return torch::constant_pad_nd(x[0], {-1, 2, 0, -2}, 1);
      },
      {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].diagonal(); }, {leaf({4, 5})});
  check_op(
      [](const Tensors& x) { return x[0].diagonal(1, 0, 2) * 2; },
      {leaf({3, 2, 4})});
  check_op(
      [](const Tensors& x) { return x[0].unfold(0, 3, 2); }, {leaf({7, 2})});
  check_op(
      [](const Tensors& x) { return x[0].movedim(0, 2); }, {leaf({2, 3, 4})});
}

// What is written to a slice is written to the tensor.
TEST(OpsRanks, WritesThroughSlices) {
  check_op(
      [](const Tensors& x) {
        at::Tensor y = x[0] * 1;
        const Placements now = is_dtensor(y) ? placements_of(y) : Placements();
        if (std::none_of(now.begin(), now.end(), [](Placement each) {
              return each.is_shard(1);
            })) {
          y.slice(1, 1, 3).mul_(3);
          y.select(1, 2).add_(x[0].select(1, 0));
        } else {
          EXPECT_THROW(y.select(1, 2).zero_(), InvalidArgument);
          y = y * torch::tensor({1.f, 3.f, 3.f, 1.f});
          y = y +
              x[0].select(1, 0).unsqueeze(1) *
                  torch::tensor({0.f, 0.f, 1.f, 0.f});
        }
        return y;
      },
      {leaf({5, 4})});
}

// Dims that are not touched stay cut, and only what is lacking is sent.
TEST(OpsRanks, SlicesSendLittle) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = shard_tensor(exact_values({4, 6, 8}), mesh, {Shard(0)})
                             .requires_grad_();
    const auto parts = x.chunk(2, 1);
    const at::Tensor y =
        torch::cat({parts[1], parts[0]}, 2).flip({1}).select(1, 0);
    y.slice(1, 2, 9).pow(2).sum().backward();
    EXPECT_EQ(placements_of(y), Placements{Shard(0)});
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(0)});
    EXPECT_EQ(x.slice(0).sizes(), x.sizes());
    EXPECT_EQ(num_collectives(), 0u);
    EXPECT_EQ(placements_of(x.slice(0, 1, 4)), Placements{Shard(0)});
    EXPECT_EQ(num_collectives(), 1u);
  });
}

} // namespace
} // namespace argosy
