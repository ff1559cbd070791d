// Rules of ops that write to a tensor, and ops without a rule against the
// unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::Tensors;

TEST(OpsRanks, InPlace) {
  check_op(
      [](const Tensors& x) { return x[0].clone().mul_(3).add_(1).relu_(); },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].clone().add_(x[1], 2); },
      {leaf({5, 3}), leaf({3}, 1)});
  check_op(
      [](const Tensors& x) { return x[0].clone().copy_(x[1]); },
      {leaf({4, 2}), leaf({4, 2}, 1)});
  check_op(
      [](const Tensors& x) { return x[0].clone().fill_(2) + x[0]; },
      {leaf({4, 2})});
  check_op(
      [](const Tensors& x) {
        at::Tensor y = x[0].detach().clone();
        y.t().add_(1);
        return y;
      },
      {exact_values({4, 2})});
}

TEST(OpsRanks, Out) {
  check_op(
      [](const Tensors& x) {
        at::Tensor out = x[1].clone();
        torch::add_out(out, x[0], x[0]);
        return out;
      },
      {exact_values({4, 2}), exact_values({4, 2}, 1)});
}

TEST(OpsRanks, OpsWithoutARule) {
  check_op([](const Tensors& x) { return x[0].cumsum(0); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::roll(x[0], 1, 0); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) {
        return x[0].index_select(0, torch::tensor({2, 0}));
      },
      {leaf({5, 3})});
}

} // namespace
} // namespace argosy
