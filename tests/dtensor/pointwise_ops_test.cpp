// Rules of element-wise ops against the unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::Tensors;

TEST(OpsRanks, Pointwise) {
  check_op([](const Tensors& x) { return torch::relu(x[0]); }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return torch::gelu(x[0]); }, {leaf({4, 3})});
  check_op([](const Tensors& x) { return x[0] * 3 + 1; }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return -x[0] / 4; }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].to(torch::kDouble); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].to(torch::kInt); },
      {exact_values({5, 3})});
  check_op([](const Tensors& x) { return x[0] > 0; }, {exact_values({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::zeros_like(x[0]) + 2; },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].sigmoid() - x[0].exp(); },
      {leaf({3})});
}

TEST(OpsRanks, PointwiseWithBroadcasting) {
  const auto add = [](const Tensors& x) { return x[0] + x[1]; };
  const auto mul = [](const Tensors& x) { return x[0] * x[1]; };
  const auto div = [](const Tensors& x) { return x[0] / (x[1] * x[1] + 1); };
  check_op(add, {leaf({5, 3}), leaf({5, 3}, 1)});
  check_op(add, {leaf({5, 3}), leaf({3}, 1)});
  check_op(mul, {leaf({5, 3}), leaf({5, 1}, 1)});
  check_op(mul, {leaf({4}), leaf({2, 1}, 1)});
  check_op(div, {leaf({4, 2}), leaf({4, 2}, 1)});
  check_op(
      [](const Tensors& x) { return torch::where(x[0] > 0, x[0], x[1]); },
      {leaf({4, 2}), leaf({2}, 1)});
}

TEST(OpsRanks, PlainTensorsAreReplicated) {
  const at::Tensor other = exact_values({5, 3}, 2);
  check_op(
      [&](const Tensors& x) { return x[0] * other + other; }, {leaf({5, 3})});
  check_op(
      [&](const Tensors& x) { return other.t().matmul(x[0]); }, {leaf({5, 3})});
}

} // namespace
} // namespace argosy
