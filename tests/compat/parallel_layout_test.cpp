// Layouts in MindSpore's notation: blocks, replicas, shards of the optimizer.

#include "argosy/compat/parallel_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "tests/compat/strategy_oracle.h"

namespace argosy {
namespace {

using compat::box_of;
using compat::optimizer_groups;
using compat::OptimizerGroups;
using compat::replicas_of;
using dtensor::Box;
using dtensor::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParallelLayout, MatMulOn8DevicesHasTheSlicesOfMindSpore) {
  // MatMul ((2, 1), (1, 4)): D = [2, 1, 4], A = [2, 1], W = [1, 0].
  const auto a = ParallelLayout::of({2, 1, 4}, {2, 1});
  const auto w = ParallelLayout::of({2, 1, 4}, {1, 0});
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(box_of(a, {4, 6}, rank), (Box{{rank / 4 * 2, 0}, {2, 6}}));
    EXPECT_EQ(box_of(w, {6, 8}, rank), (Box{{0, rank % 4 * 2}, {6, 2}}));
  }
}

TEST(ParallelLayout, RepeatsAreNeighbours) {
  // The same on 16 devices: D = [2, 1, 4, 2], A = [3, 2], W = [2, 1].
  const auto a = with_repeats(ParallelLayout::of({2, 1, 4}, {2, 1}), 16);
  const auto w = with_repeats(ParallelLayout::of({2, 1, 4}, {1, 0}), 16);
  EXPECT_EQ(a, ParallelLayout::of({2, 1, 4, 2}, {3, 2}));
  EXPECT_EQ(w, ParallelLayout::of({2, 1, 4, 2}, {2, 1}));
  EXPECT_EQ(
      with_repeats(ParallelLayout::of({4}, {0, -1}), 8, false),
      ParallelLayout::of({2, 4}, {0, -1}));
  const auto y = ParallelLayout::of({2, 1, 4, 2}, {3, 1}); // the product
  EXPECT_THAT(replicas_of(y, 5), ElementsAre(4, 5));
  EXPECT_THAT(replicas_of(y, 2), ElementsAre(2, 3));
  EXPECT_THROW(with_repeats(a, 24), InvalidArgument);
}

TEST(ParallelLayout, OptimizerShardsAreRowsOfSlices) {
  // MatMul ((2, 4), (4, 1)), weight (8, 4): D = [2, 4, 1].
  const auto w = ParallelLayout::of({2, 4, 1}, {1, 0}, Shape{8, 4});
  const auto sharded = with_optimizer_shards(w);
  EXPECT_EQ(sharded.opt_weight_shard_step, 4);
  EXPECT_EQ(sharded.opt_weight_shard_size, -1);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(box_of(w, {8, 4}, rank), (Box{{2 * (rank % 4), 0}, {2, 4}}));
    EXPECT_THAT(replicas_of(w, rank), ElementsAre(rank % 4, rank % 4 + 4));
    EXPECT_EQ(
        box_of(sharded, {8, 4}, rank),
        (Box{{2 * (rank % 4) + rank / 4, 0}, {1, 4}}));
    EXPECT_THAT(optimizer_groups(sharded, rank).mirror, ElementsAre(rank));
  }
}

TEST(ParallelLayout, OptimizerGroupsAreConsecutiveReplicas) {
  const auto w = with_optimizer_shards(ParallelLayout::of({4, 8}, {0, -1}), 2);
  EXPECT_EQ(w.opt_weight_shard_step, 8);
  EXPECT_EQ(optimizer_groups(w, 0), (OptimizerGroups{{0, 8}, {0, 16}}));
  EXPECT_EQ(optimizer_groups(w, 24), (OptimizerGroups{{16, 24}, {8, 24}}));
  EXPECT_THROW(
      with_optimizer_shards(ParallelLayout::of({4, 8}, {0, -1}), 3),
      InvalidArgument);
}

TEST(ParallelLayout, InnerReplicasCanShardTheOptimizer) {
  // MindSpore refuses to transform this one.
  const auto w =
      with_optimizer_shards(ParallelLayout::of({4, 2}, {1, -1}, Shape{8, 3}));
  EXPECT_EQ(w.opt_weight_shard_step, 1);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(box_of(w, {8, 3}, rank), (Box{{rank, 0}, {1, 3}}));
  }
}

TEST(ParallelLayout, RowsMayBeUneven) {
  auto layout = ParallelLayout::of({2, 2}, {1, 0}, Shape{10, 4});
  layout.param_split_shape = {3, 7};
  layout.indices_offset = {0, 0};
  compat::check_layout(layout, "table");
  EXPECT_EQ(box_of(layout, {10, 4}, 1), (Box{{0, 2}, {3, 2}}));
  EXPECT_EQ(box_of(layout, {10, 4}, 2), (Box{{3, 0}, {7, 2}}));
  layout.param_split_shape = {3, 8};
  EXPECT_THROW(compat::check_layout(layout, "table"), InvalidArgument);
}

TEST(ParallelLayout, BlocksAreTheElementsOfTheDefinition) {
  testing::RandomStrategies random(1);
  for (int round = 0; round < 300; ++round) {
    const Shape shape = random.shape();
    const auto layout = random.layout(random.number(1, 12), shape);
    compat::check_layout(layout, "w");
    const testing::ElementOracle oracle(layout);
    for (int device = 0; device < oracle.devices(); ++device) {
      const Box box = box_of(layout, shape, device);
      const auto elements = oracle.elements(shape, device);
      ASSERT_EQ(box.numel(), static_cast<std::int64_t>(elements.size()))
          << layout << " device " << device;
      if (!elements.empty()) {
        ASSERT_EQ(box.size, testing::shape_of_elements(shape, elements));
        std::int64_t first = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          first = first * shape[d] + box.offset[d];
        }
        ASSERT_EQ(first, elements[0]) << layout << " device " << device;
      }
    }
  }
}

TEST(ParallelLayout, DTensorsHaveTheSameBlocks) {
  const ProcessMesh mesh({2, 3}, {6, 8, 10, 7, 9, 11}, {"dp", "mp"});
  const std::vector<Placements> all{
      {Shard(0), Shard(1)},
      {Replicate(), Shard(-1)},
      {Shard(0), Shard(0)},
      {Replicate(), Replicate()}};
  for (const Placements& placements : all) {
    const DistAttr attr(mesh, placements);
    const Shape shape{7, 5};
    const ParallelLayout layout = layout_of(shape, attr);
    EXPECT_THAT(layout.rank_list, ElementsAre(0, 2, 4, 1, 3, 5));
    const Placements dims = normalized(placements, 2, 2);
    for (int rank = 6; rank < 12; ++rank) {
      EXPECT_EQ(
          box_of(layout, shape, rank - 6),
          dtensor::local_box(shape, DistAttr(mesh, dims), rank));
    }
  }
  EXPECT_EQ(
      layout_of(
          {8, 4},
          DistAttr(
              ProcessMesh::of_shape({2, 4}), Placements{Shard(1), Shard(0)})),
      ParallelLayout::of({2, 4}, {0, 1}, Shape{8, 4}));
}

TEST(ParallelLayout, RefusesWhatHasNoBlocks) {
  const ProcessMesh mesh = ProcessMesh::of_shape({4});
  EXPECT_THROW(
      layout_of({8}, DistAttr(mesh, Placements{Partial()})), InvalidArgument);
  EXPECT_THROW(
      layout_of(
          {8},
          DistAttr(ProcessMesh::of_ranks({2, 3, 4}), Placements{Shard(0)})),
      InvalidArgument);
  EXPECT_THROW(ParallelLayout::of({2, 2}, {2, -1}), InvalidArgument);
  EXPECT_THROW(ParallelLayout::of({2, 2}, {1, 1}), InvalidArgument);
  EXPECT_THROW(ParallelLayout::of({2, 2}, {1, 0}, Shape{4}), InvalidArgument);
  EXPECT_THROW(ParallelLayout::of({0}, {0}), InvalidArgument);
  auto wrong = with_optimizer_shards(ParallelLayout::of({2, 4}, {0, -1}));
  wrong.opt_weight_shard_step = 1;
  try {
    compat::check_layout(wrong, "fc.weight");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("fc.weight"));
    EXPECT_THAT(error.what(), HasSubstr("expected 4"));
  }
  auto fields = ParallelLayout::of({2}, {0});
  fields.field = 3;
  EXPECT_THROW(box_of(fields, {6}, 0), InvalidArgument);
}

} // namespace
} // namespace argosy
