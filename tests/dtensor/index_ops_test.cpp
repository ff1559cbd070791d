// Rules of ops that read and write by index against the unsharded ops, over all
// placements.

#include <gtest/gtest.h>
#include <torch/nn/functional/embedding.h>
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
using torch::indexing::None;
using torch::indexing::Slice;

// Places in a dim of `n` elements.
at::Tensor places(at::IntArrayRef shape, std::int64_t n, int seed = 0) {
  return exact_values(shape, seed).to(torch::kLong).remainder(n);
}

TEST(OpsRanks, ReadByIndex) {
  for (const std::int64_t dim : {0, 1}) {
    check_op(
        [dim](const Tensors& x) { return x[0].index_select(dim, x[1]); },
        {leaf({5, 4}), places({3}, 4)});
    check_op(
        [dim](const Tensors& x) { return x[0].gather(dim, x[1]); },
        {leaf({4, 4}), places({4, 4}, 4)});
    check_op(
        [dim](const Tensors& x) { return x[0].gather(dim, x[1]); },
        {leaf({9, 8}), places({2, 3}, 5)});
    check_op(
        [dim](const Tensors& x) {
          return x[0].take_along_dim(x[1].argsort(dim), dim);
        },
        {leaf({5, 3}),
         torch::tensor({3, 1, 4, 0, 9, 2, 6, 5, 8, 11, 14, 7, 10, 13, 12})
             .view({5, 3})});
  }
  check_op(
      [](const Tensors& x) { return x[0].take(x[1]); },
      {leaf({4, 3}), places({5}, 12)});
}

TEST(OpsRanks, AdvancedIndex) {
  check_op(
      [](const Tensors& x) { return x[0].index({x[1]}); },
      {leaf({7, 3}), places({2, 2}, 7)});
  check_op(
      [](const Tensors& x) { return x[0].index({x[1] - 5}); },
      {leaf({5, 4}), places({2}, 5)});
  check_op(
      [](const Tensors& x) {
        return x[0].index({Slice(), x[1]});
      },
      {leaf({3, 6, 2}), places({3}, 6)});
  check_op(
      [](const Tensors& x) {
        return x[0].index({x[1], x[2]});
      },
      {leaf({4, 5}), places({3}, 4, 1), places({3}, 5, 2)});
  check_op(
      [](const Tensors& x) {
        return x[0].index({x[1], Slice(), x[2]});
      },
      {leaf({3, 4, 3}), places({2, 1}, 3, 1), places({2}, 3, 2)});
  check_op(
      [](const Tensors& x) { return x[0].index({x[0] > 1}); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].masked_select(x[0] > 0) * 2; },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return (x[0] > 2).nonzero(); },
      {exact_values({5, 3})});
}

TEST(OpsRanks, Scatter) {
  for (const std::int64_t dim : {0, 1}) {
    const at::Tensor unique =
        torch::tensor({0, 2, 1, 1, 0, 2, 2, 1, 0}).view({3, 3});
    const at::Tensor once = dim == 0 ? unique.t().contiguous() : unique;
    check_op(
        [dim](const Tensors& x) { return x[0].scatter(dim, x[1], x[2]); },
        {leaf({3, 3}, 1), once, leaf({3, 3}, 2)});
    check_op(
        [dim](const Tensors& x) { return x[0].scatter(dim, x[1], 7); },
        {leaf({5, 4}), places({3, 2}, 4)});
    check_op(
        [dim](const Tensors& x) { return x[0].scatter_add(dim, x[1], x[2]); },
        {leaf({4, 3}, 1), places({4, 3}, 3), leaf({4, 3}, 2)});
    check_op(
        [dim](const Tensors& x) {
          return x[0].scatter_reduce(dim, x[1], x[2], "amax");
        },
        {exact_values({4, 3}, 1), places({4, 3}, 3), exact_values({4, 3}, 2)});
    check_op(
        [dim](const Tensors& x) { return (x[0] * 1).scatter_(dim, x[1], 2); },
        {leaf({4, 4}), places({4, 4}, 4)});
  }
}

TEST(OpsRanks, IndexAddCopyFill) {
  for (const std::int64_t dim : {0, 1}) {
    check_op(
        [dim](const Tensors& x) { return x[0].index_add(dim, x[1], x[2]); },
        {leaf({4, 4}, 1), places({4}, 4), leaf({4, 4}, 2)});
    check_op(
        [dim](const Tensors& x) { return x[0].index_copy(dim, x[1], x[2]); },
        {leaf({4, 4}, 1), torch::tensor({2, 0, 3, 1}), leaf({4, 4}, 2)});
    check_op(
        [dim](const Tensors& x) { return x[0].index_fill(dim, x[1], 3); },
        {leaf({5, 4}), places({2}, 4)});
  }
}

TEST(OpsRanks, IndexPut) {
  for (const bool adds : {false, true}) {
    check_op(
        [adds](const Tensors& x) { return x[0].index_put({x[1]}, x[2], adds); },
        {leaf({5, 3}, 1), torch::tensor({3, 1}), leaf({2, 3}, 2)});
    check_op(
        [adds](const Tensors& x) {
          return (x[0] * 1).index_put_({x[1], x[2]}, x[3], adds);
        },
        {leaf({4, 3}, 1),
         torch::tensor({3, 1}),
         torch::tensor({0, 2}),
         leaf({2}, 2)});
  }
  check_op(
      [](const Tensors& x) {
        at::Tensor y = x[0] * 1;
        y.index_put_({x[0] > 1}, 9);
        return y;
      },
      {leaf({5, 3})});
}

TEST(OpsRanks, Searches) {
  check_op(
      [](const Tensors& x) { return torch::searchsorted(x[0], x[1]); },
      {torch::arange(6.f), exact_values({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::bucketize(x[1], x[0]); },
      {torch::arange(6.f), exact_values({5, 3})});
}

TEST(OpsRanks, OneHot) {
  check_op(
      [](const Tensors& x) { return torch::one_hot(x[0], 4); },
      {places({5, 3}, 4)});
  check_op(
      [](const Tensors& x) { return torch::one_hot(x[0]); }, {places({5}, 4)});
}

// A batch that is cut stays so, in both directions.
TEST(OpsRanks, IndicesOfABatchSendNothing) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x =
        shard_tensor(exact_values({4, 6}), mesh, {Shard(0)}).requires_grad_();
    const at::Tensor at = shard_tensor(places({4, 6}, 6), mesh, {Shard(0)});
    const at::Tensor picked = x.gather(1, at).scatter_add(1, at, x);
    picked.index_select(1, places({3}, 6)).pow(2).sum().backward();
    EXPECT_EQ(placements_of(picked), Placements{Shard(0)});
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(0)});
    EXPECT_EQ(num_collectives(), 0u);
  });
}

} // namespace
} // namespace argosy
