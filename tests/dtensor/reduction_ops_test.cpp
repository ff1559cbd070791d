// Rules of reductions against the unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::exact_values;
using argosy::testing::leaf;
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

} // namespace
} // namespace argosy
