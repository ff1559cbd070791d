// Tensors of sub-meshes as one tensor of the mesh, and back.

#include "argosy/dtensor/sub_meshes.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "tests/dtensor/op_checks.h"
#include "tests/dtensor/traffic.h"

namespace argosy {
namespace {

using argosy::testing::exact_values;
using argosy::testing::num_collectives;
using argosy::testing::run_ranks;

using Tensors = std::vector<at::Tensor>;

// A tensor for each sub-mesh, sharded as `placements` say.
Tensors experts_of(
    const Tensors& values,
    const ProcessMesh& mesh,
    int axis,
    const Placements& placements) {
  Tensors experts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    experts.push_back(
        shard_tensor(
            values[i], mesh.at(axis, static_cast<std::int64_t>(i)), placements)
            .requires_grad_());
  }
  return experts;
}

// What this rank has of the gradient of its expert.
void expect_own_gradient(
    const Tensors& experts, const Tensors& expected, int rank) {
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (process_mesh_of(experts[i]).contains(rank)) {
      EXPECT_TRUE(torch::equal(full_tensor(experts[i].grad()), expected[i]))
          << i << full_tensor(experts[i].grad());
    }
  }
}

TEST(SubMeshesRanks, TensorsFollowEachOther) {
  run_ranks(4, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2}, {"expert", "mp"});
    const at::Tensor value = exact_values({5, 4}); // 3 rows and 2
    const at::Tensor weight = exact_values({5, 4}, 2);
    const Tensors experts = experts_of(value.split(3), mesh, 0, {Shard(1)});
    const auto before = num_collectives();
    const at::Tensor whole =
        moe_global_mesh_tensor(experts, mesh, {Shard(0), Shard(1)}, "expert");
    EXPECT_EQ(num_collectives(), before);
    EXPECT_EQ(whole.sizes(), value.sizes());
    EXPECT_TRUE(torch::equal(full_tensor(whole), value));
    (whole * weight).sum().backward();
    expect_own_gradient(experts, weight.split(3), world.rank());
  });
}

TEST(SubMeshesRanks, SplitAndJoinedAgain) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
  const at::Tensor value = exact_values({6, 4});
  const at::Tensor weight = exact_values({6, 4}, 2);
  run_ranks(4, [&](World&) {
    for (const int axis : {0, 1, -1}) {
      for (const Placements& by :
           {Placements{Shard(0), Shard(1)},
            Placements{Replicate(), Replicate()},
            Placements{Shard(1), Shard(0)},
            Placements{Replicate(), Shard(0)}}) {
        const at::Tensor x =
            shard_tensor(value, mesh, {Shard(1), Replicate()}).requires_grad_();
        const Tensors parts = moe_sub_mesh_tensors(x, mesh, axis, by);
        EXPECT_EQ(parts.size(), 2u);
        const at::Tensor y = moe_global_mesh_tensor(parts, mesh, by, axis);
        EXPECT_EQ(placements_of(y), by);
        EXPECT_TRUE(torch::equal(full_tensor(y), value)) << by;
        (y * weight).sum().backward();
        EXPECT_TRUE(torch::equal(full_tensor(x.grad()), weight)) << by;
      }
    }
  });
}

// Each expert works on what it has; what they share gets all their gradients.
TEST(SubMeshesRanks, ExpertsWorkApart) {
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor value = exact_values({4, 3});
    const at::Tensor x = shard_tensor(value, mesh, {Shard(0)}).requires_grad_();
    const at::Tensor shared =
        shard_tensor(exact_values({3}), mesh, {Replicate()}).requires_grad_();
    const Tensors inputs = moe_sub_mesh_tensors(x, mesh, 0, {Shard(0)});
    const Tensors weights =
        moe_sub_mesh_tensors(shared, mesh, 0, {Replicate()});
    Tensors outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      outputs.push_back(inputs[i] * weights[i] * static_cast<double>(i + 1));
    }
    const at::Tensor y = moe_global_mesh_tensor(outputs, mesh, {Shard(0)}, 0);
    const at::Tensor factor =
        torch::tensor({1.0F, 1.0F, 2.0F, 2.0F}).view({4, 1});
    EXPECT_TRUE(
        torch::equal(full_tensor(y), value * exact_values({3}) * factor));
    y.sum().backward();
    EXPECT_TRUE(
        torch::equal(full_tensor(shared.grad()), (value * factor).sum(0)));
    EXPECT_TRUE(torch::equal(
        full_tensor(x.grad()), (exact_values({3}) * factor).expand({4, 3})));
    EXPECT_EQ(
        process_mesh_of(outputs[0]).contains(world.rank()), world.rank() == 0);
  });
}

TEST(SubMeshesRanks, SumOfExperts) {
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const Tensors values{exact_values({3}), exact_values({3}, 4)};
    const Tensors experts = experts_of(values, mesh, 0, {Replicate()});
    const at::Tensor sum = moe_global_mesh_tensor(experts, mesh, {Partial()});
    EXPECT_TRUE(torch::equal(full_tensor(sum), values[0] + values[1]));
    const at::Tensor weight = exact_values({3}, 5);
    (sum * weight).sum().backward();
    expect_own_gradient(experts, {weight, weight}, world.rank());
  });
}

TEST(SubMeshesRanks, RefusesWhatIsNoPartOfTheMesh) {
  run_ranks(4, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
    const at::Tensor value = exact_values({4, 4});
    const Tensors swapped{
        shard_tensor(value, mesh[1], {Shard(0)}),
        shard_tensor(value, mesh[0], {Shard(0)})};
    const Placements by{Shard(1), Shard(0)};
    EXPECT_THROW(moe_global_mesh_tensor(swapped, mesh, by, 0), InvalidArgument);
    EXPECT_THROW(moe_global_mesh_tensor({value}, mesh, by, 0), InvalidArgument);
    const Tensors uneven{
        shard_tensor(value.narrow(1, 0, 1), mesh[0], {Shard(0)}),
        shard_tensor(value, mesh[1], {Shard(0)})};
    EXPECT_THROW(moe_global_mesh_tensor(uneven, mesh, by, 0), InvalidArgument);
    const at::Tensor x = shard_tensor(value, mesh, by);
    EXPECT_THROW(
        moe_sub_mesh_tensors(x, mesh, 1, {Shard(0), Shard(0)}),
        InvalidArgument);
    EXPECT_THROW(
        moe_sub_mesh_tensors(x, mesh, 0, {Partial(), Shard(0)}),
        InvalidArgument);
  });
}

} // namespace
} // namespace argosy
