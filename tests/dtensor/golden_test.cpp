// Plans beside those that MindSpore's planner makes of the same layouts: ours
// must not carry more, and never gather what is not wanted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "argosy/dtensor/layout/block_transfers.h"
#include "argosy/dtensor/layout/reshard_plan.h"
#include "tests/dtensor/random_layouts.h"

namespace argosy::dtensor {
namespace {

using argosy::testing::RandomLayouts;
using ::testing::ElementsAre;

const Shape kSquare{16, 16};

// What the rank with the most to get receives when `from` becomes `to`.
std::int64_t received(
    const Shape& global, const DistAttr& from, const DistAttr& to) {
  std::int64_t most = 0;
  for (const int rank : to.mesh.process_ids()) {
    most = std::max(most, lacking(global, from, to, rank));
  }
  return most;
}

// The bytes of a plan that goes through these placements, one after the other.
std::int64_t bytes_through(
    const Shape& global,
    const ProcessMesh& mesh,
    const std::vector<Placements>& states) {
  std::int64_t sum = 0;
  for (std::size_t i = 1; i < states.size(); ++i) {
    sum += received(global, {mesh, states[i - 1]}, {mesh, states[i]});
  }
  return sum;
}

void expect_one(const ReshardPlan& plan, StepKind kind, std::int64_t bytes) {
  ASSERT_EQ(plan.steps.size(), 1u) << plan;
  EXPECT_EQ(plan.steps[0].kind, kind) << plan;
  EXPECT_EQ(plan.bytes(), bytes) << plan;
}

ReshardPlan plan_on(
    const ProcessMesh& mesh, const Placements& from, const Placements& to) {
  return plan_reshard(kSquare, 1, {mesh, from}, {mesh, to});
}

TEST(Golden, GathersOneAxis) {
  const ProcessMesh mesh = ProcessMesh::of_shape({4});
  expect_one(
      plan_on(mesh, {Shard(0)}, {Replicate()}), StepKind::AllGather, 3 * 64);
}

TEST(Golden, MovesAnAxisToAnotherDim) {
  const ProcessMesh mesh = ProcessMesh::of_shape({4});
  const std::int64_t gather_and_split =
      bytes_through(kSquare, mesh, {{Shard(0)}, {Replicate()}, {Shard(1)}});
  EXPECT_EQ(gather_and_split, 192);
  expect_one(plan_on(mesh, {Shard(0)}, {Shard(1)}), StepKind::AllToAll, 48);
}

TEST(Golden, CutsWithoutSending) {
  expect_one(
      plan_on(ProcessMesh::of_shape({4}), {Replicate()}, {Shard(0)}),
      StepKind::Slice,
      0);
}

// Theirs gathers one axis to break the cycle.
TEST(Golden, SwapsTwoAxesAtOnce) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 4});
  const Placements from{Shard(0), Shard(1)};
  const Placements to{Shard(1), Shard(0)};
  const std::int64_t with_all_to_all = bytes_through(
      kSquare,
      mesh,
      {from, {Replicate(), Shard(1)}, {Replicate(), Shard(0)}, to});
  const std::int64_t with_gathers = bytes_through(
      kSquare,
      mesh,
      {from, {Replicate(), Shard(1)}, {Replicate(), Replicate()}, to});
  EXPECT_EQ(with_all_to_all, 32 + 48);
  EXPECT_EQ(with_gathers, 32 + 192);
  expect_one(plan_on(mesh, from, to), StepKind::AllToAll, 32);
}

// The same ranks as [2, 4] and as [8]: one exchange, as theirs on the mesh that
// refines both.
TEST(Golden, UnifiesMeshesThatDivideEachOther) {
  const DistAttr grid(
      ProcessMesh::of_shape({2, 4}), Placements{Shard(0), Shard(1)});
  const DistAttr line(ProcessMesh::of_shape({8}), Placements{Shard(0)});
  const std::int64_t refined = bytes_through(
      kSquare, grid.mesh, {{Shard(0), Shard(1)}, {Shard(0), Shard(0)}});
  EXPECT_EQ(refined, 24);
  for (const auto& [from, to] :
       {std::pair(grid, line), std::pair(line, grid)}) {
    expect_one(plan_reshard(kSquare, 1, from, to), StepKind::Transfer, refined);
  }
}

// Theirs cuts, then exchanges halves of the 64 elements that are left.
TEST(Golden, CrossesMeshesThatNeitherDividesTheOther) {
  const DistAttr from(
      ProcessMesh::of_shape({2, 4}), Placements{Shard(0), Replicate()});
  const DistAttr to(
      ProcessMesh::of_shape({4, 2}), Placements{Shard(1), Replicate()});
  expect_one(plan_reshard(kSquare, 1, from, to), StepKind::Transfer, 64 / 2);
}

// Theirs gathers all, as 2 and 3 do not divide each other.
TEST(Golden, NeedsNoFallbackForSizesThatDoNotDivide) {
  const DistAttr from(
      ProcessMesh::of_shape({2, 3}), Placements{Shard(0), Shard(1)});
  const DistAttr to(
      ProcessMesh::of_shape({3, 2}), Placements{Shard(0), Shard(1)});
  const Shape global{6, 6};
  const std::int64_t gather_all = bytes_through(
      global, from.mesh, {{Shard(0), Shard(1)}, {Replicate(), Replicate()}});
  EXPECT_EQ(gather_all, 30);
  expect_one(plan_reshard(global, 1, from, to), StepKind::Transfer, 6);
}

struct Stress {
  int plans = 0;
  int fallbacks = 0; // that carry more than what ranks lack
  int most_collectives = 0;
};

Stress stress(
    RandomLayouts& random,
    const std::vector<std::int64_t>& worlds,
    int num_plans) {
  Stress result;
  for (; result.plans < num_plans; ++result.plans) {
    const auto which = random.below(static_cast<std::int64_t>(worlds.size()));
    const std::int64_t ranks = worlds[static_cast<std::size_t>(which)];
    const auto ndim = static_cast<int>(1 + random.below(3));
    Shape global;
    for (int dim = 0; dim < ndim; ++dim) {
      global.push_back(ranks * (1 + random.below(3)));
    }
    const DistAttr from = random.attr(ndim, ranks);
    const DistAttr to = random.attr(ndim, ranks);
    const ReshardPlan plan = plan_reshard(global, 1, from, to);
    EXPECT_EQ(plan.steps.empty() ? from : plan.steps.back().to, to);
    result.fallbacks += plan.bytes() > received(global, from, to) ? 1 : 0;
    result.most_collectives =
        std::max(result.most_collectives, plan.num_collectives());
  }
  return result;
}

// Theirs falls back to gathering all in 207 of 598 pairs on 6 and 12 devices,
// and takes up to 8 steps.
TEST(Golden, RandomPairsNeverFallBack) {
  RandomLayouts random(14);
  for (const auto& worlds : {std::vector<std::int64_t>{2, 4, 8, 16}, {6, 12}}) {
    const Stress result = stress(random, worlds, 1500);
    EXPECT_EQ(result.fallbacks, 0);
    EXPECT_EQ(result.most_collectives, 1);
  }
}

// Layout((2, 2, 2), (dp, sp, mp)) with ("mp", ("sp", "dp")): the mesh is
// permuted so that sp cuts before dp.
TEST(Golden, AxesCutADimInAnyOrder) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 2, 2}, {"dp", "sp", "mp"})
                               .permuted({"sp", "dp", "mp"});
  const DistAttr attr(mesh, Placements{Shard(1), Shard(1), Shard(0)});
  std::vector<int> of_slice(4, -1);
  for (const int rank : mesh.process_ids()) {
    const Box box = local_box({2, 4}, attr, rank);
    EXPECT_THAT(box.size, ElementsAre(1, 1));
    if (box.offset[0] == 0) {
      of_slice[static_cast<std::size_t>(box.offset[1])] = rank;
    }
  }
  EXPECT_THAT(of_slice, ElementsAre(0, 4, 2, 6));
}

// Replicas 0, 8, 16, 24 of a weight, shared by two each.
TEST(Golden, ShardedReplicasGatherInGroupsOfTheirOwn) {
  const ProcessMesh mesh =
      ProcessMesh::of_shape({2, 2, 8}, {"mirror", "shard", "mp"});
  const ReshardPlan plan = plan_on(
      mesh,
      {Replicate(), Shard(0), Shard(1)},
      {Replicate(), Replicate(), Shard(1)});
  expect_one(plan, StepKind::AllGather, 16);
  const std::vector<int> axes = plan.steps[0].axes;
  EXPECT_THAT(mesh.slice_through(0, axes).process_ids(), ElementsAre(0, 8));
  EXPECT_THAT(mesh.slice_through(24, axes).process_ids(), ElementsAre(16, 24));
  EXPECT_THAT(mesh.slice_through(0, {0}).process_ids(), ElementsAre(0, 16));
  EXPECT_THAT(mesh.slice_through(8, {0}).process_ids(), ElementsAre(8, 24));
}

} // namespace
} // namespace argosy::dtensor
