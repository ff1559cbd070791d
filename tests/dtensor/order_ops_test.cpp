// Rules of cumulative ops, sorts and the largest elements against the unsharded
// ops, over all placements.

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

// No two elements are equal, so that their order is certain.
at::Tensor different_values(at::IntArrayRef shape) {
  const std::int64_t count = torch::zeros(shape).numel();
  return ((torch::arange(count) * 7 + 3) % 31)
      .to(torch::kFloat)
      .reshape(shape)
      .requires_grad_();
}

TEST(OpsRanks, Cumulative) {
  for (const std::int64_t dim : {0, 1}) {
    check_op(
        [dim](const Tensors& x) { return x[0].cumsum(dim); }, {leaf({5, 3})});
    check_op(
        [dim](const Tensors& x) { return x[0].cumprod(dim); },
        {(exact_values({5, 3}) / 4).requires_grad_()});
    check_op(
        [dim](const Tensors& x) { return x[0].logcumsumexp(dim); },
        {leaf({5, 3})});
    check_op(
        [dim](const Tensors& x) { return std::get<0>(x[0].cummax(dim)); },
        {different_values({5, 3})});
  }
}

TEST(OpsRanks, Sorts) {
  for (const std::int64_t dim : {0, 1}) {
    check_op(
        [dim](const Tensors& x) { return std::get<0>(x[0].sort(dim)); },
        {different_values({5, 3})});
    check_op(
        [dim](const Tensors& x) { return x[0].argsort(dim, true); },
        {different_values({5, 3})});
    check_op(
        [dim](const Tensors& x) { return std::get<0>(x[0].kthvalue(2, dim)); },
        {different_values({5, 3})});
    check_op(
        [dim](const Tensors& x) { return std::get<0>(x[0].median(dim)); },
        {different_values({5, 3})});
  }
  check_op(
      [](const Tensors& x) { return x[0].median(); },
      {different_values({5, 3})});
  check_op(
      [](const Tensors& x) { return std::get<0>(at::_unique2(x[0])); },
      {exact_values({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].histc(4, -5, 5); },
      {exact_values({5, 3})});
}

TEST(OpsRanks, Largest) {
  for (const std::int64_t dim : {0, 1}) {
    check_op(
        [dim](const Tensors& x) { return std::get<0>(x[0].topk(2, dim)); },
        {different_values({5, 4})});
    check_op(
        [dim](const Tensors& x) {
          return std::get<1>(x[0].topk(3, dim, false));
        },
        {different_values({4, 7})});
    check_op(
        [dim](const Tensors& x) { return std::get<0>(x[0].max(dim)) * 2; },
        {different_values({5, 4})});
    check_op(
        [dim](const Tensors& x) { return std::get<1>(x[0].min(dim, true)); },
        {exact_values({5, 4})});
    check_op(
        [dim](const Tensors& x) { return x[0].argmax(dim); },
        {exact_values({5, 4})});
  }
  check_op(
      [](const Tensors& x) { return x[0].argmin(); },
      {different_values({5, 3})});
}

// Only what each rank found is sent.
TEST(OpsRanks, LargestSendLittle) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = shard_tensor(
        different_values({31}).detach().repeat({1000}), mesh, {Shard(0)});
    x.topk(2);
    EXPECT_EQ(num_collectives(), 2u);
    EXPECT_LE(get_group(0)->traffic().total().bytes, 200u);
    x.view({-1, 31}).sort(1);
    EXPECT_EQ(num_collectives(), 2u);
  });
}

} // namespace
} // namespace argosy
