#include "argosy/expert/all_to_all_plan.h"

#include <gtest/gtest.h>

#include <sstream>

#include "argosy/common/error.h"

namespace argosy::expert {
namespace {

// Two ranks with two experts each. From rank 0 come 2 rows for expert 0 and 1
// for expert 1, from rank 1 come 3 and 4.
TEST(AllToAllPlan, OrdersByExpertAndThenByRank) {
  const AllToAllPlan plan = plan_all_to_all({1, 0, 5, 2}, {2, 1, 3, 4}, 2);
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
  EXPECT_TRUE(plan_all_to_all({1, 2, 3}, {4, 5, 6}, 3).blocks.empty());
  EXPECT_TRUE(plan_all_to_all({1, 2, 3}, {1, 2, 3}, 1).blocks.empty());
  EXPECT_TRUE(plan_all_to_all({0, 0, 0, 0}, {0, 0, 0, 0}, 2).blocks.empty());
  EXPECT_TRUE(plan_all_to_all({1, 1, 1, 1}, {3, 0, 2, 4}, 2).blocks.empty());
  EXPECT_FALSE(plan_all_to_all({1, 1, 1, 1}, {3, 1, 2, 4}, 2).blocks.empty());
}

TEST(AllToAllPlan, RefusesCountsThatDoNotFit) {
  EXPECT_THROW(plan_all_to_all({1, 2, 3}, {1, 2, 3}, 2), InvalidArgument);
  EXPECT_THROW(plan_all_to_all({1, 2}, {1, 2, 3, 4}, 2), InvalidArgument);
  EXPECT_THROW(plan_all_to_all({1, -2}, {1, 2}, 2), InvalidArgument);
  EXPECT_THROW(plan_all_to_all({1, 2}, {1, -2}, 2), InvalidArgument);
  EXPECT_THROW(plan_all_to_all({}, {}, 2), InvalidArgument);
}

} // namespace
} // namespace argosy::expert
