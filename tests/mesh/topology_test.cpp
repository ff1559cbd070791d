#include "argosy/mesh/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/comm/group.h"
#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_group.h"
#include "argosy/testing/ranks.h"
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

TEST(HybridCommunicateGroup, KnowsWhereARankStands) {
  testing::run_ranks(8, [](World& world) {
    const HybridCommunicateGroup hybrid(eight());
    const int rank = world.rank();
    EXPECT_EQ(hybrid.get_global_rank(), rank);
    EXPECT_EQ(hybrid.get_data_parallel_rank(), rank / 4);
    EXPECT_EQ(hybrid.get_sharding_parallel_rank(), rank / 2 % 2);
    EXPECT_EQ(hybrid.get_model_parallel_rank(), rank % 2);
    EXPECT_EQ(hybrid.get_model_parallel_world_size(), 2);
    EXPECT_EQ(hybrid.get_model_parallel_group_src_rank(), rank - rank % 2);
    EXPECT_EQ(hybrid.get_expert_parallel_rank(), 0);
    EXPECT_EQ(hybrid.get_expert_parallel_group()->nranks(), 1);
    EXPECT_EQ(hybrid.get_sep_parallel_group()->nranks(), 1);
    EXPECT_EQ(
        hybrid.get_data_parallel_group()->ranks(),
        (std::vector{rank % 4, rank % 4 + 4}));
    EXPECT_EQ(hybrid.get_data_parallel_world_size(), 2);
    EXPECT_EQ(hybrid.get_data_parallel_group_src_rank(), rank % 4);
    EXPECT_EQ(hybrid.get_sharding_parallel_world_size(), 2);
    EXPECT_EQ(
        hybrid.get_sharding_parallel_group_src_rank(), rank - rank / 2 % 2 * 2);
    // Alone on an axis of one.
    EXPECT_EQ(hybrid.get_sep_parallel_rank(), 0);
    EXPECT_EQ(hybrid.get_sep_parallel_group_src_rank(), rank);
    EXPECT_EQ(hybrid.get_expert_parallel_world_size(), 1);
    EXPECT_EQ(hybrid.get_expert_parallel_group_src_rank(), rank);
    EXPECT_EQ(hybrid.get_pipe_parallel_group_src_rank(), rank);
    EXPECT_EQ(
        hybrid.get_pp_mp_parallel_group()->ranks(),
        hybrid.get_model_parallel_group()->ranks());
    EXPECT_EQ(hybrid.get_check_parallel_group()->nranks(), 4);
    EXPECT_EQ(hybrid.get_check_parallel_group(true)->nranks(), 4);
    EXPECT_EQ(hybrid.get_parallel_mode(), ParallelMode::TENSOR_PARALLEL);
    EXPECT_TRUE(hybrid.is_first_stage() && hybrid.is_last_stage());
    EXPECT_EQ(hybrid.get_p2p_groups().next, nullptr);
  });
}

TEST(HybridCommunicateGroup, PutsStagesInARing) {
  testing::run_ranks(6, [](World& world) {
    HybridDegrees degrees;
    degrees.pp = 3;
    degrees.mp = 2;
    const auto hybrid =
        std::make_shared<HybridCommunicateGroup>(hybrid_topology(degrees, 6));
    const int rank = world.rank();
    EXPECT_EQ(hybrid->get_stage_id(), rank / 2);
    EXPECT_EQ(hybrid->get_rank_from_stage(2), 4 + rank % 2);
    const auto ring = hybrid->get_p2p_groups();
    EXPECT_EQ(ring.next_rank, (rank + 2) % 6);
    EXPECT_EQ(ring.prev_rank, (rank + 4) % 6);
    EXPECT_EQ(ring.next->nranks(), 2);
    EXPECT_EQ(get_hybrid_communicate_group(), nullptr);
    set_hybrid_communicate_group(hybrid);
    EXPECT_EQ(get_hybrid_communicate_group(), hybrid);
  });
}

TEST(HybridCommunicateGroup, RefusesAnotherWorld) {
  testing::run_ranks(2, [](World&) {
    expect_refused(
        [&] { HybridCommunicateGroup{eight()}; },
        "the topology has 8 ranks, and the world 2");
  });
}

} // namespace
} // namespace argosy
