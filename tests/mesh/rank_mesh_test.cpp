// Groups of a mesh, made lazily and in any order by those who need them.

#include "argosy/mesh/rank_mesh.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using argosy::testing::run_ranks;

float sum_over(const GroupPtr& group, int value) {
  at::Tensor tensor = torch::full({1}, static_cast<float>(value));
  all_reduce(tensor, ReduceOp::SUM, group);
  return tensor.item<float>();
}

TEST(RankMeshRanks, GroupsAreMadeByMembersInAnyOrder) {
  run_ranks(4, [](World& world) {
    const auto mesh = rank_mesh(ProcessMesh::of_shape({2, 2}, {"dp", "mp"}));
    const int rank = world.rank();
    // Rank 0 alone takes its groups the other way round.
    const auto first = mesh->group(rank == 0 ? "mp" : "dp");
    const auto second = mesh->group(rank == 0 ? "dp" : "mp");
    const auto& rows = rank == 0 ? first : second;
    const auto& columns = rank == 0 ? second : first;
    EXPECT_EQ(sum_over(columns, rank), rank % 2 == 0 ? 2 : 4);
    EXPECT_EQ(sum_over(rows, rank), rank < 2 ? 1 : 5);
    EXPECT_EQ(mesh->group_over({0, 1})->id(), 0);
    EXPECT_EQ(mesh->group_over({0}), mesh->group("dp"));
  });
}

TEST(RankMeshRanks, TheOrderOfAxesDoesNotMatter) {
  for (const bool swapped : {false, true}) {
    run_ranks(5, [&](World& world) {
      const auto mesh = rank_mesh(ProcessMesh({2, 2}, {3, 1, 4, 0}, {}));
      if (mesh->is_member()) {
        const std::vector<int> axes{swapped ? 1 : 0, swapped ? 0 : 1};
        EXPECT_EQ(
            mesh->group_over(axes)->ranks(), (std::vector<int>{0, 1, 3, 4}));
        EXPECT_EQ(mesh->group_over(axes), mesh->group_over({1, 0}));
        EXPECT_EQ(sum_over(mesh->group_over({-1, 0}), world.rank()), 8);
      }
    });
  }
}

TEST(RankMeshRanks, OthersNeedNotTakePart) {
  run_ranks(3, [](World& world) {
    const auto mesh = rank_mesh(ProcessMesh({2}, {2, 0}, {}));
    EXPECT_EQ(mesh->is_member(), world.rank() != 1);
    if (mesh->is_member()) {
      EXPECT_EQ(sum_over(mesh->group(0), world.rank()), 2);
      EXPECT_EQ(mesh->coordinates()[0], world.rank() == 2 ? 0 : 1);
    } else {
      EXPECT_THROW(mesh->coordinates(), InvalidArgument);
    }
  });
}

TEST(RankMeshRanks, EachRankHasItsCurrentMesh) {
  run_ranks(2, [](World& world) {
    EXPECT_EQ(get_mesh(), std::nullopt);
    const ProcessMesh own({1}, {world.rank()}, {});
    set_mesh(own);
    EXPECT_EQ(get_mesh(), own);
    EXPECT_EQ(rank_mesh(own), rank_mesh(ProcessMesh({1}, {world.rank()}, {})));
    EXPECT_THROW(rank_mesh(ProcessMesh::of_shape({3})), InvalidArgument);
  });
}

} // namespace
} // namespace argosy
