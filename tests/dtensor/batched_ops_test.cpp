// Rules of linear algebra, Fourier transforms and special functions against the
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

// Matrices that have an inverse.
at::Tensor regular(at::IntArrayRef shape, int seed = 0) {
  return (exact_values(shape, seed) / 5 + 4 * torch::eye(shape.back()))
      .requires_grad_();
}

TEST(OpsRanks, Linalg) {
  check_op(
      [](const Tensors& x) { return torch::linalg_inv(x[0]); },
      {regular({3, 2, 2})});
  check_op(
      [](const Tensors& x) { return torch::linalg_det(x[0]); },
      {regular({5, 2, 2})});
  check_op(
      [](const Tensors& x) { return torch::linalg_solve(x[0], x[1]); },
      {regular({3, 2, 2}), leaf({3, 2, 1}, 1)});
  check_op(
      [](const Tensors& x) { return torch::linalg_solve(x[0], x[1]); },
      {regular({3, 2, 2}), leaf({2, 1}, 1)});
  check_op(
      [](const Tensors& x) {
        return torch::linalg_cholesky(x[0].matmul(x[0].mT()));
      },
      {regular({2, 2, 2})});
  check_op(
      [](const Tensors& x) { return std::get<1>(torch::linalg_qr(x[0], "r")); },
      {exact_values({2, 3, 2})});
}

TEST(OpsRanks, Fourier) {
  check_op(
      [](const Tensors& x) {
        return torch::view_as_real(torch::fft_rfft(x[0], c10::nullopt, 1));
      },
      {leaf({3, 4})});
  check_op(
      [](const Tensors& x) {
        return torch::fft_irfft(torch::view_as_complex(x[0]), 4, 0);
      },
      {leaf({3, 2, 2})});
}

TEST(OpsRanks, Special) {
  check_op(
      [](const Tensors& x) { return torch::special_i0e(x[0]); },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::gcd(x[0], x[1]); },
      {exact_values({5, 3}).to(torch::kLong),
       exact_values({3}, 1).to(torch::kLong)});
  check_op(
      [](const Tensors& x) {
        return torch::view_as_real(torch::polar(x[0].abs(), x[1]));
      },
      {leaf({4, 2}), leaf({4, 2}, 1)});
}

} // namespace
} // namespace argosy
