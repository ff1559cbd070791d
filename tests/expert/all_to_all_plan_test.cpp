#include "argosy/expert/all_to_all_plan.h"

#include <gtest/gtest.h>

#include <sstream>

#include "argosy/common/error.h"

namespace argosy::expert {
namespace {

// Two ranks with two experts each. From rank 0 come 2 rows for expert 0 and 1
// for expert 1, from rank 1 come 3 and 4.
TEST(AllToAllPlan, OrdersByExpertAndThenByRank) {
  const AllToAllPlan plan = plan_all_to_all({1, 0, 5, 2}, {2, 1, 3, 4}, {2, 0});
  EXPECT_EQ(plan.sends, (std::vector<std::int64_t>{1, 7}));
  EXPECT_EQ(plan.receives, (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(plan.expert_rows, (std::vector<std::int64_t>{5, 5}));
  const std::vector<RowBlock> blocks = {
      {0, 0, 2}, {3, 2, 3}, {2, 5, 1}, {6, 6, 4}};
  EXPECT_EQ(plan.blocks, blocks);
  EXPECT_EQ(plan.num_sent(), 8);
  EXPECT_EQ(plan.num_received(), 10);
  std::ostringstream text;
  text << plan;
  EXPECT_EQ(
      text.str(),
      "sends 1 7; receives 3 7; experts 5 5; moves 2:0->0 3:3->2 1:2->5 "
      "4:6->6");
}

TEST(AllToAllPlan, MovesNothingThatIsInOrder) {
  EXPECT_TRUE(plan_all_to_all({1, 2, 3}, {4, 5, 6}, {3, 0}).blocks.empty());
  EXPECT_TRUE(plan_all_to_all({1, 2, 3}, {1, 2, 3}, {1, 0}).blocks.empty());
  EXPECT_TRUE(
      plan_all_to_all({0, 0, 0, 0}, {0, 0, 0, 0}, {2, 0}).blocks.empty());
  EXPECT_TRUE(
      plan_all_to_all({1, 1, 1, 1}, {3, 0, 2, 4}, {2, 0}).blocks.empty());
  EXPECT_FALSE(
      plan_all_to_all({1, 1, 1, 1}, {3, 1, 2, 4}, {2, 0}).blocks.empty());
}

TEST(AllToAllPlan, RefusesCountsThatDoNotFit) {
  EXPECT_THROW(plan_all_to_all({1, 2, 3}, {1, 2, 3}, {2, 0}), InvalidArgument);
  EXPECT_THROW(plan_all_to_all({1, 2}, {1, 2, 3, 4}, {2, 0}), InvalidArgument);
  EXPECT_THROW(plan_all_to_all({1, -2}, {1, 2}, {2, 0}), InvalidArgument);
  EXPECT_THROW(plan_all_to_all({1, 2}, {1, -2}, {2, 0}), InvalidArgument);
  EXPECT_THROW(plan_all_to_all({}, {}, {2, 0}), InvalidArgument);
}

// Five experts on three ranks, which have 2, 2 and 1 of them.
TEST(AllToAllPlan, TakesExpertsThatDoNotDivide) {
  const std::vector<std::int64_t> local = {1, 2, 3, 4, 5};
  const AllToAllPlan first =
      plan_all_to_all(local, {1, 2, 0, 3, 4, 1}, {.ranks = 3, .rank = 0});
  EXPECT_EQ(first.sends, (std::vector<std::int64_t>{3, 7, 5}));
  EXPECT_EQ(first.receives, (std::vector<std::int64_t>{3, 3, 5}));
  EXPECT_EQ(first.expert_rows, (std::vector<std::int64_t>{5, 6}));
  const AllToAllPlan last =
      plan_all_to_all(local, {5, 0, 2}, {.ranks = 3, .rank = 2});
  EXPECT_EQ(last.sends, first.sends);
  EXPECT_EQ(last.receives, (std::vector<std::int64_t>{5, 0, 2}));
  EXPECT_EQ(last.expert_rows, (std::vector<std::int64_t>{7}));
  EXPECT_TRUE(last.blocks.empty());
  EXPECT_THROW(
      plan_all_to_all(local, {5, 0, 2}, {.ranks = 3, .rank = 1}),
      InvalidArgument);
}

// One expert on three ranks.
TEST(AllToAllPlan, ARankMayHaveNoExperts) {
  const AllToAllPlan plan = plan_all_to_all({4}, {}, {.ranks = 3, .rank = 2});
  EXPECT_EQ(plan.sends, (std::vector<std::int64_t>{4, 0, 0}));
  EXPECT_EQ(plan.receives, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_TRUE(plan.expert_rows.empty());
  EXPECT_EQ(plan.num_received(), 0);
}

// All experts once, in order, and nobody has two more than another.
TEST(ExpertCut, DividesExpertsOverRanks) {
  for (std::int64_t experts = 1; experts < 20; ++experts) {
    for (int ranks = 1; ranks < 12; ++ranks) {
      std::int64_t next = 0;
      const auto sizes = experts_by_rank(experts, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const ExpertRange range = experts_of(experts, {ranks, rank});
        EXPECT_EQ(range.begin, next) << experts << " on " << ranks;
        EXPECT_EQ(range.size, sizes[static_cast<std::size_t>(rank)]);
        EXPECT_LE(sizes.front() - range.size, 1);
        EXPECT_GE(sizes.front() - range.size, 0);
        next += range.size;
      }
      EXPECT_EQ(next, experts);
    }
  }
}

} // namespace
} // namespace argosy::expert
