// Rules of views against the unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::leaf;
using argosy::testing::Tensors;

TEST(OpsRanks, Views) {
  check_op([](const Tensors& x) { return x[0].t(); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].transpose(0, -1) * 2; },
      {leaf({2, 3, 4})});
  check_op(
      [](const Tensors& x) {
        return x[0].permute({2, 0, 1});
      },
      {leaf({2, 3, 4})});
  check_op(
      [](const Tensors& x) {
        return x[0].view({8, 3});
      },
      {leaf({4, 2, 3})});
  check_op(
      [](const Tensors& x) {
        return x[0].view({2, 2, -1});
      },
      {leaf({4, 6})});
  check_op([](const Tensors& x) { return x[0].reshape({-1}); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) {
        return x[0].t().reshape({2, 6});
      },
      {leaf({4, 3})});
  check_op([](const Tensors& x) { return x[0].flatten(1); }, {leaf({4, 2, 3})});
  check_op(
      [](const Tensors& x) { return x[0].unsqueeze(1) + 1; }, {leaf({5, 3})});
  check_op([](const Tensors& x) { return x[0].squeeze(); }, {leaf({5, 1, 3})});
  check_op([](const Tensors& x) { return x[0].squeeze(1); }, {leaf({4, 1, 2})});
  check_op(
      [](const Tensors& x) {
        return x[0].expand({4, 5, 3});
      },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) {
        return x[0].expand({5, 4}) * 2;
      },
      {leaf({5, 1})});
}

// A dim of two, of which each axis leaves one element, is not squeezed.
TEST(OpsRanks, SqueezeOfShortDims) {
  check_op([](const Tensors& x) { return x[0].squeeze(); }, {leaf({2, 1, 3})});
  check_op([](const Tensors& x) { return x[0].squeeze(0); }, {leaf({2, 2})});
}

} // namespace
} // namespace argosy
