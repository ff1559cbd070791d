// Which axis states are sharded over, without ranks.

#include "argosy/semi_auto/stages.h"

#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/layout/placement.h"

namespace argosy {
namespace {

TEST(Stages, StatesAreCutWhereNothingElseIs) {
  using semi_auto::sharded_over;
  const Placements column{Replicate(), Shard(0)};
  EXPECT_EQ(sharded_over(column, 0, {8, 4}), (Placements{Shard(1), Shard(0)}));
  EXPECT_EQ(sharded_over(column, 0, {8}), column); // of one dim
  EXPECT_EQ(sharded_over({Replicate()}, 0, {}), Placements{Replicate()});
  EXPECT_EQ(sharded_over({Shard(1)}, 0, {8, 4}), Placements{Shard(1)});
}

TEST(Stages, AnAxisIsNamedOrObvious) {
  using semi_auto::sharding_axis;
  EXPECT_EQ(sharding_axis({1, {}}, ProcessMesh::of_shape({4})), 0);
  EXPECT_EQ(sharding_axis(ShardingStage2(1), ProcessMesh::of_shape({2, 2})), 1);
  EXPECT_EQ(ShardingStage2().stage, 2);
  EXPECT_EQ(ShardingStage3("x").stage, 3);
  EXPECT_EQ(
      sharding_axis(ShardingStage3("x"), ProcessMesh::of_shape({2}, {"x"})), 0);
  EXPECT_EQ(
      sharding_axis({1, {}}, ProcessMesh::of_shape({2, 2}, {"mp", "dp"})), 1);
  EXPECT_EQ(
      sharding_axis({1, "x"}, ProcessMesh::of_shape({2, 2}, {"x", "y"})), 0);
  EXPECT_THROW(
      sharding_axis({1, {}}, ProcessMesh::of_shape({2, 2}, {"x", "y"})),
      InvalidArgument);
  EXPECT_THROW(
      sharding_axis({4, {}}, ProcessMesh::of_shape({2})), InvalidArgument);
}

} // namespace
} // namespace argosy
