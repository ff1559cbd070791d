// Rules of products of matrices against the unsharded ops, over all placements.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::leaf;
using argosy::testing::Tensors;

TEST(OpsRanks, Matmul) {
  const auto matmul = [](const Tensors& x) {
    return torch::matmul(x[0], x[1]);
  };
  check_op(matmul, {leaf({5, 4}), leaf({4, 3}, 1)});
  check_op(matmul, {leaf({4}), leaf({4, 3}, 1)});
  check_op(matmul, {leaf({5, 4}), leaf({4}, 1)});
  check_op(matmul, {leaf({4}), leaf({4}, 1)});
  check_op(
      [](const Tensors& x) { return x[0].mm(x[1]); },
      {leaf({5, 4}), leaf({4, 3}, 1)});
  check_op(
      [](const Tensors& x) { return x[0].bmm(x[1]); },
      {leaf({2, 3, 4}), leaf({2, 4, 2}, 1)});
  check_op(
      [](const Tensors& x) { return x[0].mv(x[1]); },
      {leaf({5, 4}), leaf({4}, 1)});
}

TEST(OpsRanks, MatmulOfBatches) {
  const auto matmul = [](const Tensors& x) {
    return torch::matmul(x[0], x[1]);
  };
  check_op(matmul, {leaf({2, 3, 4}), leaf({4, 2}, 1)});
  check_op(matmul, {leaf({2, 1, 3, 2}), leaf({4, 2, 2}, 1)});
}

TEST(OpsRanks, Addmm) {
  const auto addmm = [](const Tensors& x) {
    return torch::addmm(x[0], x[1], x[2]);
  };
  testing::check_op_on(
      ProcessMesh::of_shape({2}),
      addmm,
      {leaf({3}), leaf({5, 4}), leaf({4, 3}, 1)});
  testing::check_op_on(
      ProcessMesh::of_shape({3}),
      addmm,
      {leaf({5, 3}), leaf({5, 4}), leaf({4, 3}, 1)});
}

TEST(OpsRanks, Linear) {
  const auto linear = [](const Tensors& x) {
    return torch::linear(x[0], x[1], x[2]);
  };
  testing::check_op_on(
      ProcessMesh::of_shape({2}),
      linear,
      {leaf({5, 4}), leaf({3, 4}, 1), leaf({3}, 2)});
  testing::check_op_on(
      ProcessMesh::of_shape({3}),
      linear,
      {leaf({2, 3, 4}), leaf({3, 4}, 1), leaf({3}, 2)});
  check_op(
      [](const Tensors& x) { return torch::linear(x[0], x[1]); },
      {leaf({2, 4, 4}), leaf({2, 4}, 1)});
}

} // namespace
} // namespace argosy
