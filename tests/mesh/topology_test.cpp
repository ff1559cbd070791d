#include "argosy/mesh/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_mesh.h"
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

} // namespace
} // namespace argosy
