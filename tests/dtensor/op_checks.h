#pragma once

// An op on DTensors against the same op on plain tensors: every combination of
// placements of its inputs, forward and backward.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/dtensor/all_placements.h"
#include "tests/dtensor/no_value_checks.h"

namespace argosy::testing {

using Tensors = std::vector<at::Tensor>;
using OpFunction = std::function<at::Tensor(const Tensors&)>;

// Small integers, so that sums are exact in whatever order.
inline at::Tensor exact_values(at::IntArrayRef shape, int seed = 0) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  return ((torch::arange(count) * 7 + seed * 5 + 3) % 11 - 5)
      .to(torch::kFloat)
      .reshape(shape);
}

inline bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
      (a.is_floating_point() ? torch::allclose(a, b, 1e-5, 1e-5, true)
                             : torch::equal(a, b));
}

struct OpResult {
  at::Tensor value;
  Tensors gradients; // undefined where there are none
};

// The gradient of a weighted sum of the result.
inline OpResult run_op(const OpFunction& op, const Tensors& inputs) {
  OpResult result{op(inputs), {}};
  if (!result.value.requires_grad()) {
    return result;
  }
  Tensors wanted;
  for (const at::Tensor& input : inputs) {
    if (input.requires_grad()) {
      wanted.push_back(input);
    }
  }
  const at::Tensor weights = exact_values(result.value.sizes(), 3);
  result.gradients = torch::autograd::grad(
      {(result.value * weights).sum()}, wanted, {}, {}, false, true);
  return result;
}

inline Tensors fresh(const Tensors& inputs) {
  Tensors copies;
  for (const at::Tensor& input : inputs) {
    copies.push_back(
        input.detach().clone().requires_grad_(input.requires_grad()));
  }
  return copies;
}

inline void expect_same(
    const at::Tensor& dtensor,
    const at::Tensor& plain,
    const std::string& what) {
  if (!dtensor.defined() || !plain.defined()) {
    EXPECT_EQ(dtensor.defined(), plain.defined()) << what;
    return;
  }
  EXPECT_TRUE(is_dtensor(dtensor)) << what;
  EXPECT_EQ(dtensor.sizes(), plain.sizes()) << what;
  const at::Tensor whole = full_tensor(dtensor.detach());
  EXPECT_TRUE(same(whole, plain))
      << what << " with " << placements_of(dtensor) << "\ngot " << whole
      << "\nexpected " << plain;
}

// Every way to place tensors of these dims.
inline std::vector<std::vector<Placements>> placements_for(
    const Tensors& inputs, const ProcessMesh& mesh) {
  std::vector<std::vector<Placements>> all{{}};
  for (const at::Tensor& input : inputs) {
    std::vector<std::vector<Placements>> more;
    for (const auto& before : all) {
      for (const Placements& each :
           all_placements(static_cast<int>(input.dim()), mesh.ndim())) {
        more.push_back(before);
        more.back().push_back(each);
      }
    }
    all = std::move(more);
  }
  return all;
}

inline void check_op_on(
    const ProcessMesh& mesh, const OpFunction& op, const Tensors& inputs) {
  run_ranks(mesh.size(), [&](World&) {
    const OpResult expected = run_op(op, fresh(inputs));
    const auto all = placements_for(inputs, mesh);
    // Of very many, every so many-th; the step shares no factor with them.
    const std::size_t step = all.size() > 1000 ? 61 : all.size() > 100 ? 7 : 1;
    for (std::size_t n = 0; n < all.size(); n += step) {
      const auto& placements = all[n];
      Tensors sharded;
      std::string what = to_string(mesh);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        sharded.push_back(shard_tensor(inputs[i].detach(), mesh, placements[i])
                              .requires_grad_(inputs[i].requires_grad()));
        what = argosy::str(what, " ", placements[i]);
      }
      const OpResult result = run_op(op, sharded);
      expect_same(result.value, expected.value, what);
      ASSERT_EQ(result.gradients.size(), expected.gradients.size());
      for (std::size_t i = 0; i < result.gradients.size(); ++i) {
        expect_same(
            result.gradients[i],
            expected.gradients[i],
            argosy::str(what, ", gradient ", i));
      }
    }
  });
}

// On meshes of 2, 3, 4 and 2 x 2 ranks.
inline void check_op(const OpFunction& op, const Tensors& inputs) {
  for (const ProcessMesh& mesh :
       {ProcessMesh::of_shape({2}),
        ProcessMesh::of_shape({3}),
        ProcessMesh::of_shape({4}),
        ProcessMesh::of_shape({2, 2})}) {
    check_op_on(mesh, op, inputs);
  }
}

// An input of these values that requires grad.
inline at::Tensor leaf(at::IntArrayRef shape, int seed = 0) {
  return exact_values(shape, seed).requires_grad_();
}

} // namespace argosy::testing
