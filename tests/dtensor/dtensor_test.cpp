// Making DTensors, taking them apart, moving them; gradients through all of it.

#include "argosy/dtensor/dtensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdlib>
#include <functional>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/dtensor/layout/layout.h"
#include "argosy/dtensor/tensor/attendance.h"
#include "argosy/dtensor/tensor/reshard_run.h"
#include "argosy/mesh/rank_mesh.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::all_placements;
using argosy::testing::exact_values;
using argosy::testing::run_ranks;
using ::testing::HasSubstr;

TEST(DTensorRanks, IsOneTensorInParts) {
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor value = exact_values({5, 3});
    const at::Tensor x = shard_tensor(value, mesh, {Shard(0)});
    EXPECT_TRUE(is_dtensor(x));
    EXPECT_FALSE(is_dtensor(value));
    EXPECT_EQ(x.sizes(), value.sizes());
    EXPECT_EQ(x.device(), value.device());
    EXPECT_EQ(x.scalar_type(), value.scalar_type());
    EXPECT_EQ(placements_of(x), Placements{Shard(0)});
    EXPECT_EQ(dist_attr(x), DistAttr(mesh, Placements{Shard(0)}));
    const at::Tensor part =
        world.rank() == 0 ? value.slice(0, 0, 3) : value.slice(0, 3, 5);
    EXPECT_TRUE(torch::equal(to_local(x), part));
    EXPECT_TRUE(torch::equal(full_tensor(x), value));
    EXPECT_TRUE(torch::equal(unshard(x), value));
    EXPECT_THROW(to_local(value), InvalidArgument);
    EXPECT_THROW(shard_tensor(value, mesh, {Shard(2)}), InvalidArgument);
  });
}

TEST(DTensorRanks, KeepsOnlyItsPart) {
  run_ranks(4, [](World&) {
    const at::Tensor x = shard_tensor(
        torch::zeros({1024}), ProcessMesh::of_shape({4}), {Shard(0)});
    EXPECT_EQ(to_local(x).storage().nbytes(), 1024);
  });
}

TEST(DTensorRanks, FromLocalAndFromFunction) {
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor own = torch::full({2, 3}, float(world.rank()));
    const at::Tensor x = from_local(own, mesh, {Shard(0)});
    EXPECT_EQ(x.sizes(), at::IntArrayRef({4, 3}));
    EXPECT_EQ(full_tensor(x)[3][0].item<float>(), 1);
    const at::Tensor sum = from_local(own, mesh, {Partial()});
    EXPECT_TRUE(torch::equal(full_tensor(sum), torch::ones({2, 3})));
    const at::Tensor uneven = from_local(
        own.narrow(0, 0, 2 - world.rank()), mesh, {Shard(0)}, {3, 3});
    EXPECT_EQ(full_tensor(uneven).sum().item<float>(), 3);
    EXPECT_THROW(from_local(own, mesh, {Shard(0)}, {6, 3}), InvalidArgument);
    const at::Tensor made =
        dtensor_from_fn([] { return torch::arange(6); }, mesh, {Shard(0)});
    EXPECT_TRUE(torch::equal(full_tensor(made), torch::arange(6)));
  });
}

// d(sum of w * x) is w, whatever happens to x on the way.
TEST(DTensorRanks, ReshardIsDifferentiable) {
  for (const ProcessMesh& mesh :
       {ProcessMesh::of_shape({3}), ProcessMesh::of_shape({2, 2})}) {
    run_ranks(mesh.size(), [&](World&) {
      const at::Tensor value = exact_values({4, 3});
      const at::Tensor weight = exact_values({4, 3}, 2);
      for (const Placements& from : all_placements(2, mesh.ndim())) {
        for (const Placements& to : all_placements(2, mesh.ndim())) {
          const at::Tensor x = shard_tensor(value, mesh, from).requires_grad_();
          const at::Tensor y = reshard(x, mesh, to);
          EXPECT_EQ(placements_of(y), to);
          (y * weight).sum().backward();
          EXPECT_TRUE(torch::equal(full_tensor(x.grad()), weight))
              << from << to;
        }
      }
    });
  }
}

TEST(DTensorRanks, GradientsThroughParts) {
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor value = exact_values({4, 3});
    const at::Tensor weight = exact_values({4, 3}, 1);
    const at::Tensor x = shard_tensor(value, mesh, {Shard(0)}).requires_grad_();
    const at::Tensor own_weight =
        weight.slice(0, world.rank() * 2, world.rank() * 2 + 2);
    (to_local(x) * own_weight).sum().backward();
    EXPECT_TRUE(torch::equal(full_tensor(x.grad()), weight));

    const at::Tensor own = value.slice(0, 0, 2).clone().requires_grad_();
    (from_local(own, mesh, {Shard(0)}) * weight).sum().backward();
    EXPECT_FALSE(is_dtensor(own.grad()));
    EXPECT_TRUE(torch::equal(own.grad(), own_weight));

    const at::Tensor part = value.clone().requires_grad_();
    (from_local(part, mesh, {Partial()}) * weight).sum().backward();
    EXPECT_TRUE(torch::equal(part.grad(), weight));

    // full_tensor in the middle of a graph, and shard_tensor of no leaf.
    const at::Tensor plain = value.clone().requires_grad_();
    const at::Tensor middle = shard_tensor(plain * 2, mesh, {Shard(1)});
    (full_tensor(middle) * weight).sum().backward();
    EXPECT_TRUE(torch::equal(plain.grad(), weight * 2));
  });
}

TEST(DTensorRanks, MovesToOtherMeshes) {
  run_ranks(4, [](World& world) {
    const at::Tensor value = exact_values({4, 3});
    const ProcessMesh first({2}, {0, 1}, {});
    const ProcessMesh second({2}, {2, 3}, {});
    const at::Tensor x =
        shard_tensor(value, first, {Shard(0)}).requires_grad_();
    const at::Tensor y = reshard(x * 2, second, {Shard(1)});
    const at::Tensor loss = (y * 3).sum();
    loss.backward();
    const at::Tensor whole = full_tensor(y.detach());
    const at::Tensor grad = full_tensor(x.grad());
    if (world.rank() >= 2) {
      EXPECT_TRUE(torch::equal(whole, value * 2));
      EXPECT_EQ(
          full_tensor(loss).item<float>(), (value * 6).sum().item<float>());
    } else {
      EXPECT_TRUE(torch::equal(grad, torch::full({4, 3}, 6.0)));
    }
  });
}

// The same op on the same shapes and placements: only the meshes differ, and
// with them which part of an odd number of rows a rank has.
TEST(DTensorRanks, DecidesForEachMesh) {
  run_ranks(2, [](World&) {
    const at::Tensor value = exact_values({5, 3});
    for (const std::vector<int>& ranks :
         {std::vector{0, 1}, std::vector{1, 0}, std::vector{0, 1}}) {
      const ProcessMesh mesh({2}, ranks, {});
      const at::Tensor x = shard_tensor(value, mesh, {Shard(0)});
      EXPECT_TRUE(torch::equal(full_tensor(x + x), value + value)) << mesh;
    }
  });
}

TEST(DTensorRanks, RandomValuesDoNotDependOnPlacements) {
  std::vector<at::Tensor> seen;
  for (const ProcessMesh& mesh :
       {ProcessMesh::of_shape({1}),
        ProcessMesh::of_shape({3}),
        ProcessMesh::of_shape({2, 2})}) {
    run_ranks(mesh.size(), [&](World& world) {
      for (const Placements& each : all_placements(2, mesh.ndim())) {
        dtensor_manual_seed(7);
        const at::Tensor a = full_tensor(dtensor_randn({5, 4}, mesh, each));
        const at::Tensor b = full_tensor(dtensor_rand({5, 4}, mesh, each));
        const at::Tensor c = shard_tensor(torch::empty({5, 4}), mesh, each);
        c.normal_(1, 2, c10::nullopt);
        const at::Tensor all = torch::stack({a, b, full_tensor(c)});
        if (world.rank() == 0) {
          if (seen.empty()) {
            seen.push_back(all);
          }
          EXPECT_TRUE(torch::equal(all, seen[0])) << each;
          EXPECT_FALSE(torch::equal(a, b));
        }
      }
    });
  }
}

TEST(DTensorRanks, RandomValuesAreDistributed) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor normal =
        full_tensor(dtensor_randn({200, 100}, mesh, {Shard(0)}));
    EXPECT_NEAR(normal.mean().item<float>(), 0, 0.03);
    EXPECT_NEAR(normal.std().item<float>(), 1, 0.03);
    const at::Tensor uniform =
        full_tensor(dtensor_rand({200, 100}, mesh, {Shard(1)}));
    EXPECT_NEAR(uniform.mean().item<float>(), 0.5, 0.01);
    EXPECT_GE(uniform.min().item<float>(), 0);
    EXPECT_LT(uniform.max().item<float>(), 1);
  });
}

// An existing tensor becomes a DTensor for all who hold it.
TEST(DTensorRanks, TakesThePlaceOfAPlainTensor) {
  run_ranks(2, [](World&) {
    const at::Tensor parameter = exact_values({4, 3}).requires_grad_();
    const at::Tensor handle = parameter;
    const at::Tensor x = shard_tensor(
        parameter.detach(), ProcessMesh::of_shape({2}), {Shard(0)});
    parameter.unsafeGetTensorImpl()->shallow_copy_from(x.getIntrusivePtr());
    EXPECT_TRUE(is_dtensor(handle));
    EXPECT_TRUE(handle.requires_grad());
    (handle * 2).sum().backward();
    EXPECT_TRUE(
        torch::equal(full_tensor(handle.grad()), torch::full({4, 3}, 2.0)));
  });
}

// Strides are those of the whole, the same on all ranks, even where a rank's
// part is too small to tell.
TEST(DTensorRanks, HasTheStridesOfTheWhole) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor plain = exact_values({3, 16}); // parts of 2 rows and of 1
    const at::Tensor x = shard_tensor(plain, mesh, {Shard(0)});
    EXPECT_EQ(x.t().strides(), plain.t().strides());
    EXPECT_EQ((x.t() + 1).strides(), (plain.t() + 1).strides());
    EXPECT_EQ(x.t().contiguous().strides(), at::IntArrayRef({3, 1}));
    EXPECT_FALSE(x.t().is_contiguous());
    const at::Tensor gaps =
        from_local(exact_values({4, 6}).narrow(1, 1, 3), mesh, {Shard(0)});
    EXPECT_TRUE(gaps.is_contiguous());
    EXPECT_EQ(gaps.view({24}).sizes(), at::IntArrayRef({24}));
  });
}

// LibTorch's formula for the gradient of a product goes by strides.
TEST(DTensorRanks, GivesTheSameOpsOnRanksOfOneRow) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor w = exact_values({3, 16}).requires_grad_();
    const at::Tensor x = exact_values({4, 16}, 1);
    const at::Tensor grad = exact_values({4, 3}, 2);
    torch::mm(x, w.t()).backward(grad);
    const at::Tensor cut =
        shard_tensor(w.detach(), mesh, {Shard(0)}).requires_grad_();
    torch::mm(shard_tensor(x, mesh, {Shard(0)}), cut.t())
        .backward(shard_tensor(grad, mesh, {Shard(1)}));
    EXPECT_TRUE(torch::equal(full_tensor(cut.grad()), w.grad()));
  });
}

// One rank may print alone: nothing is sent.
TEST(DTensorRanks, PrintsWhatItIsAndThePartOfThisRank) {
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x =
        shard_tensor(torch::arange(6).view({3, 2}), mesh, {Shard(0)});
    const at::Tensor sum = from_local(torch::ones({1}), mesh, {Partial()});
    if (world.rank() == 1) {
      std::ostringstream out;
      out << x;
      EXPECT_EQ(
          out.str(),
          "DTensor of shape [3, 2], [S(0)] on ProcessMesh(shape=[2], "
          "process_ids=[0, 1], dim_names=[d0])\n"
          "rank 1 has [2:3, 0:2]:\n"
          " 4  5\n"
          "[ CPULongType{1,2} ]");
      EXPECT_EQ(describe(x), out.str());
      EXPECT_THAT(describe(sum), HasSubstr("a partial result of [0:1]"));
    }
    std::ostringstream plain;
    plain << torch::ones({1});
    EXPECT_THAT(plain.str(), HasSubstr("[ CPUFloatType{1} ]"));
    EXPECT_THROW(describe(torch::ones({1})), InvalidArgument);
  });
}

// Rank 1 comes only when rank 0 has said that it waits.
TEST(DTensorRanks, ItemOnOneRankSaysForWhomItWaits) {
  ::setenv("ARGOSY_ITEM_WARNING", "20ms", 1);
  ::testing::internal::CaptureStderr();
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = from_local(torch::ones({}), mesh, {Partial()});
    if (world.rank() == 1) {
      world.store()->wait({dtensor::Attendance::warned_key({0, 1}, 0)});
    }
    EXPECT_EQ(x.item<float>(), 2);
    EXPECT_EQ(x.item<float>(), 2);
  });
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("[dtensor.item] rank 0 has been waiting for rank 1 for"));
  ::unsetenv("ARGOSY_ITEM_WARNING");
}

// A plain tensor counts as replicated, in every op: its gradient is the whole
// one, as a plain tensor on all ranks.
TEST(DTensorRanks, PlainTensorsBesideItHavePlainGradients) {
  using Op = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;
  const std::vector<Op> ops = {
      [](const auto& x, const auto& w) { return x + w; },
      [](const auto& x, const auto& w) { return x * w + w; },
      [](const auto& x, const auto& w) { return x.matmul(w); },
      [](const auto& x, const auto& w) { return torch::linear(x, w); },
      [](const auto& x, const auto& w) { return torch::linear(w, x); },
      [](const auto& x, const auto& w) {
        return torch::embedding(w, x.abs().to(torch::kLong) % 4);
      }};
  run_ranks(2, [&](World&) {
    const at::Tensor value = exact_values({4, 4});
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto gradient = [&](const at::Tensor& x, bool is_leaf) {
        const at::Tensor w = exact_values({4, 4}, 2).requires_grad_();
        for (int step = 0; step < 2; ++step) {
          const at::Tensor y = ops[i](x, is_leaf ? w : w * 2);
          (y * y).sum().backward();
        }
        return w.grad();
      };
      for (const Placement& placement :
           std::vector<Placement>{Shard(0), Shard(1), Replicate()}) {
        const at::Tensor x =
            shard_tensor(value, ProcessMesh::of_shape({2}), {placement});
        for (const bool is_leaf : {true, false}) {
          const at::Tensor found = gradient(x, is_leaf);
          EXPECT_FALSE(is_dtensor(found)) << i;
          EXPECT_TRUE(torch::equal(found, gradient(value, is_leaf)))
              << i << " " << placement;
        }
      }
    }
  });
}

} // namespace
} // namespace argosy
