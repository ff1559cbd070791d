// Strategies as slices per dim, without ranks.

#include "argosy/parallel/semi_auto/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/parallel/semi_auto/stages.h"

namespace argosy {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kProduct{"mk", "kn"};

TEST(Strategy, LettersTakeAxesInTheirOrder) {
  const ProcessMesh mesh({2, 4});
  EXPECT_THAT(
      strategy_placements(mesh, kProduct, {{2, 1}, {1, 4}}),
      ElementsAre(
          Placements{Shard(0), Replicate()},
          Placements{Replicate(), Shard(1)}));
  EXPECT_THAT(
      strategy_placements(mesh, kProduct, {{1, 4}, {4, 2}}),
      ElementsAre(
          Placements{Replicate(), Shard(1)}, Placements{Shard(1), Shard(0)}));
  EXPECT_THAT(
      strategy_placements(mesh, kProduct, {{8, 1}, {1, 1}}),
      ElementsAre(
          Placements{Shard(0), Shard(0)},
          Placements{Replicate(), Replicate()}));
}

TEST(Strategy, RefusesWhatDoesNotGoTogether) {
  const ProcessMesh mesh({2, 4});
  for (const OpStrategy& wrong : std::vector<OpStrategy>{
           {{2, 1}},         // an operand is missing
           {{2, 1}, {1}},    // a dim is missing
           {{1, 2}, {4, 1}}, // k is cut in two ways
           {{3, 1}, {1, 1}}, // no axis of 3
           {{2, 4}, {4, 2}}, // nothing left for n
           {{0, 1}, {1, 1}}}) {
    EXPECT_THROW(strategy_placements(mesh, kProduct, wrong), InvalidArgument);
  }
}

TEST(Stages, StatesAreCutWhereNothingElseIs) {
  using parallel::sharded_over;
  const Placements column{Replicate(), Shard(0)};
  EXPECT_EQ(sharded_over(column, 0, {8, 4}), (Placements{Shard(1), Shard(0)}));
  EXPECT_EQ(sharded_over(column, 0, {8}), column); // of one dim
  EXPECT_EQ(sharded_over({Replicate()}, 0, {}), Placements{Replicate()});
  EXPECT_EQ(sharded_over({Shard(1)}, 0, {8, 4}), Placements{Shard(1)});
}

TEST(Stages, AnAxisIsNamedOrObvious) {
  using parallel::sharding_axis;
  EXPECT_EQ(sharding_axis({1, {}}, ProcessMesh({4})), 0);
  EXPECT_EQ(sharding_axis({1, {}}, ProcessMesh({2, 2}, {"mp", "dp"})), 1);
  EXPECT_EQ(sharding_axis({1, "x"}, ProcessMesh({2, 2}, {"x", "y"})), 0);
  EXPECT_THROW(
      sharding_axis({1, {}}, ProcessMesh({2, 2}, {"x", "y"})), InvalidArgument);
  EXPECT_THROW(sharding_axis({4, {}}, ProcessMesh({2})), InvalidArgument);
}

} // namespace
} // namespace argosy
