#include "argosy/mesh/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/comm/group.h"
#include "argosy/common/error.h"
#include "argosy/data/sampler.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/spawn.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using Groups = std::vector<std::vector<int>>;

template <typename F>
void expect_refused(const F& action, const char* why) {
  EXPECT_THAT(testing::refusal(action), ::testing::HasSubstr(why));
}

// data 2, pipe 1, sharding 2, sep 1, model 2.
CommunicateTopology eight() {
  return CommunicateTopology({2, 1, 2, 1, 2});
}

TEST(CommunicateTopology, NumbersRanksRowByRow) {
  const auto topology = eight();
  EXPECT_EQ(topology.world_size(), 8);
  EXPECT_EQ(
      topology.get_rank(
          {{"data", 1},
           {"pipe", 0},
           {"sharding", 0},
           {"sep", 0},
           {"model", 1}}),
      5);
  EXPECT_EQ(topology.get_coord(6).at("sharding"), 1);
  EXPECT_EQ(topology.get_dim("model"), 2);
  EXPECT_EQ(topology.get_dim("expert"), 1);
  EXPECT_EQ(topology.get_axis_list("model", 1), (std::vector{1, 3, 5, 7}));
  EXPECT_EQ(
      topology.get_comm_list("model"),
      (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(
      topology.get_comm_list("data"), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(
      topology.get_fused_ranks({"data", "sharding"}),
      (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(topology.get_rank_from_stage(1, {{"data", 1}}), 5);
}

TEST(CommunicateTopology, RefusesWhatIsNotThere) {
  const auto topology = eight();
  expect_refused(
      [&] {
        topology.get_rank({{"data", 1}});
      },
      "no coordinate on axis pipe");
  expect_refused([&] { topology.get_coord(8); }, "there is no rank 8 among 8");
  EXPECT_THROW(topology.get_comm_list("expert"), InvalidArgument);
  EXPECT_THROW(topology.get_rank_from_stage(1, {{"data", 2}}), InvalidArgument);
}

TEST(HybridTopology, FollowsTheOrderOfAxes) {
  HybridDegrees degrees;
  degrees.dp = 2;
  degrees.mp = 3;
  const auto last = hybrid_topology(degrees, 6, {"mp", "dp"});
  EXPECT_EQ(last.get_comm_list("data"), (Groups{{0, 1}, {2, 3}, {4, 5}}));
  const auto first = hybrid_topology(degrees, 6);
  EXPECT_EQ(first.get_comm_list("data"), (Groups{{0, 3}, {1, 4}, {2, 5}}));
}

TEST(HybridTopology, FillsInTheDataAxis) {
  HybridDegrees degrees;
  degrees.dp = -1;
  degrees.mp = 2;
  EXPECT_EQ(hybrid_topology(degrees, 8).get_dim("data"), 4);
}

TEST(HybridTopology, ShowsTheArithmetic) {
  HybridDegrees degrees;
  degrees.dp = 2;
  degrees.mp = 3;
  expect_refused(
      [&] { hybrid_topology(degrees, 8); },
      "dp 2 x pp 1 x sharding 1 x sep 1 x mp 3 = 6, but the world has 8 ranks");
  degrees.dp = -1;
  expect_refused(
      [&] { hybrid_topology(degrees, 8); }, "= 6, but the world has 8 ranks");
  degrees.dp = 0;
  expect_refused([&] { hybrid_topology(degrees, 8); }, "dp_degree is 0");
  degrees.dp = 2;
  expect_refused(
      [&] { hybrid_topology(degrees, 2, {"dp"}); }, "does not name it");
  expect_refused(
      [&] {
        hybrid_topology(degrees, 6, {"dp", "tp"});
      },
      "there is no axis \"tp\"");
}

HybridMeshPtr mesh_of(const HybridDegrees& degrees) {
  return std::make_shared<HybridMesh>(hybrid_topology(degrees, 4));
}

DataRanks ranks_of_a_sampler() {
  const data::DistributedBatchSampler sampler(100, {});
  return {*sampler.options().rank, *sampler.options().num_replicas};
}

TEST(SamplerRanks, AreThoseOfTheWorld) {
  testing::run_ranks(3, [](World& world) {
    EXPECT_EQ(ranks_of_a_sampler(), (DataRanks{world.rank(), 3}));
    // Every sample once, over the ranks.
    data::DistributedBatchSampler sampler(9, {.batch_size = 3});
    EXPECT_EQ(sampler.next()->indices.front(), world.rank() * 3);
  });
}

TEST(SamplerRanks, AreTheDataRanksOfTheMesh) {
  testing::run_ranks(4, [](World& world) {
    set_current_hybrid_mesh(mesh_of({.dp = 2, .mp = 2}));
    EXPECT_EQ(ranks_of_a_sampler(), (DataRanks{world.rank() / 2, 2}));
    set_current_hybrid_mesh(mesh_of({.pp = 2, .sharding = 2}));
    EXPECT_EQ(ranks_of_a_sampler(), (DataRanks{world.rank() % 2, 2}));
    set_current_hybrid_mesh(mesh_of({.pp = 2, .sep = 2}));
    EXPECT_EQ(ranks_of_a_sampler(), (DataRanks{0, 1}));
    set_current_hybrid_mesh(mesh_of({.dp = 2, .sharding = 2}));
    EXPECT_EQ(ranks_of_a_sampler(), (DataRanks{world.rank(), 4}));
  });
}

TEST(SamplerRanks, MustBeTakenAfterTheMesh) {
  testing::run_ranks(4, [](World&) {
    ranks_of_a_sampler();
    expect_refused(
        [] { set_current_hybrid_mesh(mesh_of({.dp = 2, .mp = 2})); },
        "make samplers after fleet::init()");
    // Where both say the same, the order does not matter.
    set_current_hybrid_mesh(mesh_of({.dp = 4}));
  });
}

TEST(SamplerRanks, NeedAWorldInAJobOfSeveralRanks) {
  spawn(
      [] {
        expect_refused(
            [] { ranks_of_a_sampler(); },
            "[data.sampler] this thread belongs to no world yet, and the job "
            "has 2 ranks: call init_parallel_env() or fleet::init() first");
      },
      2);
}

TEST(GroupOrAxis, IsAllRanksOnlyWhereTheMeshAgrees) {
  testing::run_ranks(4, [](World&) {
    EXPECT_EQ(group_or_axis(nullptr, "model")->nranks(), 4);
    expect_refused(
        [] { set_current_hybrid_mesh(mesh_of({.dp = 2, .mp = 2})); },
        "a layer or an operation of the model axis was used before "
        "fleet::init() without a group and took all 4 ranks, but with these "
        "degrees the axis has 2");
    set_current_hybrid_mesh(mesh_of({.mp = 4}));
    EXPECT_EQ(group_or_axis(nullptr, "model")->nranks(), 4);
    set_current_hybrid_mesh(mesh_of({.dp = 2, .mp = 2}));
    EXPECT_EQ(group_or_axis(nullptr, "model")->nranks(), 2);
  });
}

} // namespace
} // namespace argosy
