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

TEST(OpsRanks, ChangesOfShapeInPlace) {
  check_op(
      [](const Tensors& x) { return x[0].clone().t_().unsqueeze_(1); },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return x[0].clone().transpose_(0, 2).squeeze_(); },
      {leaf({4, 1, 3})});
  check_op(
      [](const Tensors& x) {
        at::Tensor y = x[0].detach().clone();
        y.detach().t_().add_(1);
        return y.squeeze_(0);
      },
      {exact_values({4, 2})});
}

// LibTorch's formulas write the gradient to plain zeros.
TEST(OpsRanks, BackwardThatMakesPlainTensors) {
  check_op(
      [](const Tensors& x) { return std::get<0>(x[0].kthvalue(2, 1)); },
      {leaf({3, 4})});
  check_op([](const Tensors& x) { return x[0].trace(); }, {leaf({3, 3})});
}

// LibTorch conjugates later, in whatever op comes next.
TEST(OpsRanks, ConjugationThatIsPutOff) {
  const at::Tensor value =
      torch::complex(exact_values({4, 2}), exact_values({4, 2}, 1));
  check_op(
      [](const Tensors& x) { return torch::view_as_real(x[0].conj().clone()); },
      {value});
  check_op(
      [](const Tensors& x) {
        return torch::view_as_real(x[0].conj().resolve_conj());
      },
      {value.conj()});
}

TEST(OpsRanks, LengthsThatAreRead) {
  check_op(
      [](const Tensors& x) {
        return torch::cat(torch::tensor_split(x[0], x[1], 0), 1);
      },
      {leaf({4, 2}), torch::tensor({2})});
}

} // namespace
} // namespace argosy
