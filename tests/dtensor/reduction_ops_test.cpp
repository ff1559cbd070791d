// Rules of reductions against the unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

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

TEST(OpsRanks, Reductions) {
  check_op([](const Tensors& x) { return x[0].sum(); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].sum(0); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].sum(1, true); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].mean(); }, {leaf({4, 3})});
  check_op([](const Tensors& x) { return x[0].mean(-1); }, {leaf({5, 4})});
  check_op(
      [](const Tensors& x) {
        return x[0].mean(at::IntArrayRef({0, 2}));
      },
      {leaf({2, 2, 2})});
  check_op(
      [](const Tensors& x) { return x[0].prod(1); }, {exact_values({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].amax(0); }, {exact_values({5, 3})});
  check_op([](const Tensors& x) { return x[0].max(); }, {exact_values({5, 3})});
  check_op([](const Tensors& x) { return x[0].min(); }, {exact_values({7})});
  check_op(
      [](const Tensors& x) { return std::get<1>(x[0].max(1)); },
      {exact_values({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].argmax(0); }, {exact_values({5, 3})});
  check_op(
      [](const Tensors& x) { return (x[0] > 2).any(0); },
      {exact_values({5, 3})});
  check_op(
      [](const Tensors& x) { return (x[0] > -4).all(); },
      {exact_values({5, 3})});
  check_op([](const Tensors& x) { return x[0].var(0); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].logsumexp(1); }, {leaf({4, 3})});
}

// No dim is not the last dim.
TEST(OpsRanks, ReductionsOfAllAndOfOne) {
  check_op(
      [](const Tensors& x) { return x[0].argmax() + x[0].argmax(-1); },
      {exact_values({5, 3})});
}

TEST(OpsRanks, Statistics) {
  for (const std::int64_t dim : {0, 1}) {
    check_op(
        [dim](const Tensors& x) { return x[0].mean(dim); }, {leaf({5, 3})});
    check_op(
        [dim](const Tensors& x) { return x[0].var(at::IntArrayRef({dim})); },
        {leaf({5, 3})});
    check_op(
        [dim](const Tensors& x) {
          const auto both = torch::std_mean(x[0], dim, false, true);
          return std::get<0>(both) + std::get<1>(both);
        },
        {leaf({5, 4})});
    check_op(
        [dim](const Tensors& x) { return x[0].logsumexp(dim, true); },
        {leaf({5, 3})});
    for (const double order : {2.0, 3.0, double{INFINITY}}) {
      check_op(
          [=](const Tensors& x) { return x[0].norm(order, dim); },
          {leaf({7, 4})});
    }
  }
  check_op([](const Tensors& x) { return x[0].mean(); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].std(); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].norm(); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::linalg_vector_norm(x[0]); },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].count_nonzero(at::IntArrayRef({0})); },
      {exact_values({5, 3})});
  check_op([](const Tensors& x) { return x[0].prod(0); }, {leaf({5, 3})});
}

// A mean over any cut dim is a sum of shares, and a variance two small sums.
TEST(OpsRanks, StatisticsSendLittle) {
  run_ranks(3, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({3});
    const at::Tensor x =
        shard_tensor(exact_values({1000, 2}), mesh, {Shard(0)});
    EXPECT_EQ(placements_of(x.mean(0)), Placements{Partial()});
    EXPECT_EQ(num_collectives(), 0u);
    EXPECT_EQ(
        placements_of(x.var(at::IntArrayRef({0}))), Placements{Replicate()});
    EXPECT_EQ(num_collectives(), 2u);
    EXPECT_LE(get_group(0)->traffic().total().bytes, 64u);
  });
}

} // namespace
} // namespace argosy
