// Placements, and which part of a tensor a rank holds.

#include "argosy/dtensor/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"

namespace argosy::dtensor {
namespace {

using ::testing::ElementsAre;

TEST(Placements, ArePrinted) {
  EXPECT_EQ(to_string(Placements{Shard(0), Replicate()}), "[S(0), R]");
  EXPECT_EQ(
      to_string(Placements{Partial(), Partial(comm::ReduceOp::MAX), Shard(-1)}),
      "[P(sum), P(max), S(-1)]");
  EXPECT_EQ(
      to_string(DistAttr(ProcessMesh::of_shape({2}), Placements{Replicate()})),
      "[R] on ProcessMesh(shape=[2], process_ids=[0, 1], dim_names=[d0])");
}

TEST(Placements, AreNormalizedAndChecked) {
  EXPECT_EQ(normalized({Shard(-1)}, 3, 1), Placements{Shard(2)});
  EXPECT_THROW(normalized({Shard(2)}, 2, 1), InvalidArgument);
  EXPECT_THROW(normalized({Shard(-3)}, 2, 1), InvalidArgument);
  EXPECT_THROW(normalized({Shard(0)}, 2, 2), InvalidArgument);
  EXPECT_THROW(Shard(32), InvalidArgument);
  EXPECT_THROW(
      DistAttr(ProcessMesh::of_shape({2, 2}), Placements{Shard(0)}),
      InvalidArgument);
}

TEST(DistAttr, TakesTheOlderNotation) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 4}, {"x", "y"});
  const DistAttr attr(mesh, DistAttr::ShardingSpecs{"y", std::nullopt});
  EXPECT_EQ(attr.placements, (Placements{Replicate(), Shard(0)}));
  EXPECT_THAT(attr.dims_mapping(2), ElementsAre(1, -1));
  using Specs = DistAttr::ShardingSpecs;
  EXPECT_THROW(DistAttr(mesh, Specs{"z"}), InvalidArgument);
  EXPECT_THROW(DistAttr(mesh, Specs{"x", "x"}), InvalidArgument);
}

TEST(Layout, ChunksAreRoundedUpAndMayBeEmpty) {
  const ProcessMesh mesh = ProcessMesh::of_shape({4});
  const DistAttr attr(mesh, Placements{Shard(0)});
  const auto rows = [&](std::int64_t n, int rank) {
    return local_box({n}, attr, rank);
  };
  EXPECT_EQ(rows(10, 0), (Box{{0}, {3}}));
  EXPECT_EQ(rows(10, 3), (Box{{9}, {1}}));
  EXPECT_EQ(rows(5, 2), (Box{{4}, {1}}));
  EXPECT_EQ(rows(5, 3), (Box{{5}, {0}}));
  EXPECT_EQ(rows(0, 1), (Box{{0}, {0}}));
  EXPECT_EQ(rows(10, 4).numel(), 0); // not in the mesh
}

// A matmul of strategy ((2, 1), (1, 4)) on 8 ranks.
TEST(Layout, MatmulCutByRowsAndColumns) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 4});
  const DistAttr input(mesh, Placements{Shard(0), Replicate()});
  const DistAttr weight(mesh, Placements{Replicate(), Shard(1)});
  const DistAttr output(mesh, Placements{Shard(0), Shard(1)});
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(
        local_box({16, 8}, input, rank), (Box{{rank / 4 * 8, 0}, {8, 8}}));
    EXPECT_EQ(local_box({8, 4}, weight, rank), (Box{{0, rank % 4}, {8, 1}}));
    EXPECT_EQ(
        local_box({16, 4}, output, rank),
        (Box{{rank / 4 * 8, rank % 4}, {8, 1}}));
  }
}

// Strategy ((2, 4), (4, 1)) on 8 ranks: rows of the weight.
TEST(Layout, MatmulCutInTheContractedDim) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 4});
  const DistAttr weight(mesh, Placements{Replicate(), Shard(0)});
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(
        local_box({8, 4}, weight, rank), (Box{{2 * (rank % 4), 0}, {2, 4}}));
  }
  // Replicas take a half of it each: dim 0 cut by the second axis first.
  const DistAttr optimizer(
      mesh.permuted({1, 0}), Placements{Shard(0), Shard(0)});
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(
        local_box({8, 4}, optimizer, rank),
        (Box{{2 * (rank % 4) + rank / 4, 0}, {1, 4}}));
  }
}

// ("mp", ("sp", "dp")) on axes dp, sp, mp: sp cuts dim 1 before dp does.
TEST(Layout, OrderOfAxesIsThatOfTheMesh) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 2, 2}, {"dp", "sp", "mp"});
  const DistAttr attr(
      mesh.permuted({"sp", "dp", "mp"}),
      Placements{Shard(1), Shard(1), Shard(0)});
  std::vector<int> order(4);
  for (int rank = 0; rank < 8; ++rank) {
    const Box box = local_box({2, 4}, attr, rank);
    EXPECT_EQ(box.size, (Shape{1, 1}));
    EXPECT_EQ(box.offset[0], rank % 2);
    if (box.offset[0] == 0) {
      order.at(static_cast<std::size_t>(box.offset[1])) = rank;
    }
  }
  EXPECT_THAT(order, ElementsAre(0, 4, 2, 6));
}

TEST(Layout, SeveralAxesCutChunksOfChunks) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
  const DistAttr attr(mesh, Placements{Shard(0), Shard(0)});
  std::vector<Box> boxes;
  for (int rank = 0; rank < 4; ++rank) {
    boxes.push_back(local_box({7}, attr, rank));
  }
  EXPECT_THAT(
      boxes,
      ElementsAre(Box{{0}, {2}}, Box{{2}, {2}}, Box{{4}, {2}}, Box{{6}, {1}}));
  EXPECT_FALSE(is_even({7}, mesh.shape(), attr.placements));
  EXPECT_TRUE(is_even({8}, mesh.shape(), attr.placements));
  EXPECT_EQ(largest_local_shape({7}, {2, 2}, attr.placements), Shape{2});
}

// Whatever the placements, every element is on as many ranks as replicate it.
TEST(Layout, CoversTheTensor) {
  const Shape global{5, 3};
  const ProcessMesh mesh = ProcessMesh::of_shape({3, 2});
  for (const Placement a : {Placement(Shard(0)), Placement(Shard(1))}) {
    for (const Placement b : {Placement(Shard(0)), Placement(Shard(1))}) {
      std::int64_t elements = 0;
      for (int rank = 0; rank < 6; ++rank) {
        elements += local_box(global, {mesh, {a, b}}, rank).numel();
      }
      EXPECT_EQ(elements, 15) << a << b;
    }
  }
}

TEST(Box, IntersectsAndMoves) {
  const Box a{{0, 2}, {4, 4}};
  const Box b{{3, 0}, {5, 3}};
  EXPECT_EQ(intersection(a, b), (Box{{3, 2}, {1, 1}}));
  EXPECT_EQ(within(Box{{3, 2}, {1, 1}}, a), (Box{{3, 0}, {1, 1}}));
  EXPECT_EQ(intersection(a, Box{{4, 2}, {1, 1}}).numel(), 0);
  EXPECT_EQ(to_string(a), "[0:4, 2:6]");
}

} // namespace
} // namespace argosy::dtensor
