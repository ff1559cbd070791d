// Plans of resharding: that they arrive, carry the least, and look as expected.

#include "argosy/dtensor/layout/reshard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "argosy/dtensor/layout/block_transfers.h"
#include "tests/dtensor/all_placements.h"

namespace argosy::dtensor {
namespace {

using argosy::testing::all_placements;
using ::testing::ElementsAre;

std::vector<StepKind> kinds(const ReshardPlan& plan) {
  std::vector<StepKind> result;
  for (const ReshardStep& step : plan.steps) {
    result.push_back(step.kind);
  }
  return result;
}

ReshardPlan plan_on(
    const ProcessMesh& mesh, const Placements& from, const Placements& to) {
  return plan_reshard({16, 16}, 1, {mesh, from}, {mesh, to});
}

std::int64_t least_bytes(
    const Shape& global, const DistAttr& from, const DistAttr& to) {
  std::int64_t most = 0;
  for (const int rank : to.mesh.process_ids()) {
    most = std::max(most, lacking(global, from, to, rank));
  }
  return most;
}

TEST(ReshardPlan, OfNoChangeIsEmpty) {
  for (const Placements& each : all_placements(2, 2)) {
    const ReshardPlan plan = plan_on(ProcessMesh::of_shape({2, 2}), each, each);
    EXPECT_TRUE(plan.steps.empty()) << each << ": " << plan;
  }
}

TEST(ReshardPlan, OneAxis) {
  const ProcessMesh mesh = ProcessMesh::of_shape({4});
  const auto on = [&](Placement from, Placement to) {
    return plan_on(mesh, {from}, {to});
  };
  EXPECT_THAT(
      kinds(on(Shard(0), Replicate())), ElementsAre(StepKind::AllGather));
  EXPECT_EQ(on(Shard(0), Replicate()).bytes(), 192);
  EXPECT_THAT(kinds(on(Shard(0), Shard(1))), ElementsAre(StepKind::AllToAll));
  EXPECT_EQ(on(Shard(0), Shard(1)).bytes(), 48);
  EXPECT_THAT(kinds(on(Replicate(), Shard(0))), ElementsAre(StepKind::Slice));
  EXPECT_THAT(
      kinds(on(Partial(), Replicate())), ElementsAre(StepKind::AllReduce));
  EXPECT_EQ(on(Partial(), Replicate()).bytes(), 2 * 192);
  EXPECT_THAT(
      kinds(on(Partial(), Shard(1))), ElementsAre(StepKind::ReduceScatter));
  EXPECT_EQ(on(Partial(), Shard(1)).bytes(), 192);
  EXPECT_THAT(
      kinds(on(Replicate(), Partial())), ElementsAre(StepKind::MakePartial));
  EXPECT_THAT(
      kinds(on(Shard(0), Partial())),
      ElementsAre(StepKind::AllGather, StepKind::MakePartial));
  EXPECT_THAT(
      kinds(on(Partial(), Partial(comm::ReduceOp::MAX))),
      ElementsAre(StepKind::AllReduce, StepKind::MakePartial));
  EXPECT_EQ(
      to_string(on(Shard(0), Replicate())),
      "all_gather(axis 0): [S(0)] -> [R], 192 bytes");
}

// Two axes that exchange their dims need no gather.
TEST(ReshardPlan, SwapIsOneAllToAll) {
  const ReshardPlan plan = plan_on(
      ProcessMesh::of_shape({2, 4}),
      {Shard(0), Shard(1)},
      {Shard(1), Shard(0)});
  EXPECT_THAT(kinds(plan), ElementsAre(StepKind::AllToAll));
  // A part has 32 elements: 8 rows and 4 columns before, 4 and 8 after.
  EXPECT_EQ(plan.bytes(), 32);
}

// Between meshes of other shapes with the same ranks, [2, 4] to [8] and back.
TEST(ReshardPlan, OtherShapesOfTheSameRanks) {
  const DistAttr grid(
      ProcessMesh::of_shape({2, 4}), Placements{Shard(0), Shard(1)});
  const DistAttr line(ProcessMesh::of_shape({8}), Placements{Shard(0)});
  for (const auto& [from, to] :
       {std::pair(grid, line), std::pair(line, grid)}) {
    const ReshardPlan plan = plan_reshard({16, 16}, 1, from, to);
    EXPECT_THAT(kinds(plan), ElementsAre(StepKind::Transfer));
    EXPECT_EQ(plan.bytes(), 24); // a part of 32 elements, 8 of them there
  }
  // [2, 3] to [3, 2], whose sizes do not divide each other.
  const DistAttr a(
      ProcessMesh::of_shape({2, 3}), Placements{Shard(0), Shard(1)});
  const DistAttr b(
      ProcessMesh::of_shape({3, 2}), Placements{Shard(0), Shard(1)});
  const ReshardPlan plan = plan_reshard({6, 6}, 1, a, b);
  EXPECT_THAT(kinds(plan), ElementsAre(StepKind::Transfer));
  EXPECT_LT(plan.bytes(), 6 * 6 - 6);
  EXPECT_EQ(plan.bytes(), least_bytes({6, 6}, a, b));
}

TEST(ReshardPlan, CutsBeforeAReductionAndGathersAfterIt) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
  EXPECT_THAT(
      kinds(plan_on(mesh, {Partial(), Replicate()}, {Replicate(), Shard(0)})),
      ElementsAre(StepKind::Slice, StepKind::AllReduce));
  EXPECT_THAT(
      kinds(plan_on(mesh, {Partial(), Shard(0)}, {Replicate(), Replicate()})),
      ElementsAre(StepKind::AllReduce, StepKind::AllGather));
  EXPECT_THAT(
      kinds(plan_on(mesh, {Partial(), Partial()}, {Replicate(), Replicate()})),
      ElementsAre(StepKind::AllReduce));
  // Starting twice pays for a large tensor only.
  const DistAttr parts(mesh, Placements{Partial(), Partial()});
  const DistAttr shards(mesh, Placements{Shard(0), Shard(1)});
  EXPECT_THAT(
      kinds(plan_reshard({16, 16}, 4, parts, shards)),
      ElementsAre(StepKind::AllReduce, StepKind::Slice));
  EXPECT_THAT(
      kinds(plan_reshard({1024, 1024}, 4, parts, shards)),
      ElementsAre(StepKind::ReduceScatter, StepKind::ReduceScatter));
}

struct Case {
  Shape global;
  ProcessMesh mesh;
};

std::vector<Case> cases() {
  return {
      {{5, 3}, ProcessMesh::of_shape({2})},
      {{4, 6}, ProcessMesh::of_shape({3})},
      {{7}, ProcessMesh::of_shape({4})},
      {{2, 3}, ProcessMesh({2, 2}, {3, 1, 0, 2}, {})},
      {{8, 8}, ProcessMesh::of_shape({2, 2})},
      {{5, 4}, ProcessMesh::of_shape({2, 2, 2})}};
}

// Whatever only shards and replicates takes one collective at most, and nobody
// receives what it has, or anything twice.
TEST(ReshardPlan, CarriesTheLeast) {
  for (const auto& [global, mesh] : cases()) {
    const auto states =
        all_placements(static_cast<int>(global.size()), mesh.ndim(), {});
    for (const Placements& from : states) {
      for (const Placements& to : states) {
        const ReshardPlan plan =
            plan_reshard(global, 1, {mesh, from}, {mesh, to});
        EXPECT_LE(plan.num_collectives(), 1) << plan;
        EXPECT_EQ(plan.bytes(), least_bytes(global, {mesh, from}, {mesh, to}))
            << plan;
      }
    }
  }
}

// Steps fit together, and a whole tensor is never gathered unless it is wanted.
TEST(ReshardPlan, ArrivesWithoutNeedlessGathers) {
  for (const auto& [global, mesh] : cases()) {
    const auto states =
        all_placements(static_cast<int>(global.size()), mesh.ndim());
    for (const Placements& from : states) {
      for (const Placements& to : states) {
        const ReshardPlan plan =
            plan_reshard(global, 1, {mesh, from}, {mesh, to});
        Placements at = from;
        for (const ReshardStep& step : plan.steps) {
          EXPECT_EQ(step.from.placements, at) << plan;
          at = step.to.placements;
        }
        EXPECT_EQ(at, to) << plan;
      }
    }
  }
}

// What one sends, another receives, and every element arrives.
TEST(BlockTransfers, GivesEachRankWhatItLacks) {
  for (const auto& [global, mesh] : cases()) {
    const auto states =
        all_placements(static_cast<int>(global.size()), mesh.ndim(), {});
    for (const Placements& from : states) {
      for (const Placements& to : states) {
        std::map<std::pair<int, int>, Box> sent;
        std::map<std::pair<int, int>, Box> received;
        for (const int rank : mesh.process_ids()) {
          const BlockTransfers transfers =
              block_transfers(global, {mesh, from}, {mesh, to}, rank);
          std::int64_t elements = transfers.kept ? transfers.kept->numel() : 0;
          for (const BlockTransfer& piece : transfers.sends) {
            EXPECT_TRUE(
                sent.emplace(std::pair(rank, piece.peer), piece.box).second);
          }
          for (const BlockTransfer& piece : transfers.receives) {
            elements += piece.box.numel();
            EXPECT_TRUE(received.emplace(std::pair(piece.peer, rank), piece.box)
                            .second);
          }
          EXPECT_EQ(elements, transfers.target.numel()) << from << to;
        }
        EXPECT_EQ(sent, received) << from << to;
      }
    }
  }
}

} // namespace
} // namespace argosy::dtensor
