// Which shards a view leaves shards.

#include "argosy/dtensor/ops/view_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace argosy::dtensor {
namespace {

using ::testing::ElementsAre;

TEST(ViewGroups, FollowTheFirstDimOfAGroup) {
  EXPECT_THAT(sharded_dims({4, 2, 3}, {8, 3}, 2), ElementsAre(0, -1, 1));
  EXPECT_THAT(sharded_dims({8, 3}, {4, 2, 3}, 2), ElementsAre(0, 2));
  EXPECT_THAT(sharded_dims({2, 6}, {12}, 2), ElementsAre(0, -1));
  EXPECT_THAT(sharded_dims({4, 6}, {6, 4}, 2), ElementsAre(0, -1));
}

TEST(ViewGroups, NeedEqualChunksWhereDimsMerge) {
  EXPECT_THAT(sharded_dims({4, 2}, {8}, 3), ElementsAre(-1, -1));
  EXPECT_THAT(sharded_dims({12}, {3, 4}, 2), ElementsAre(-1));
  EXPECT_THAT(sharded_dims({5, 3}, {5, 1, 3}, 2), ElementsAre(0, 2));
}

TEST(ViewGroups, SkipDimsOfOneElement) {
  EXPECT_THAT(sharded_dims({1, 4, 2}, {4, 2, 1}, 2), ElementsAre(-1, 0, 1));
  EXPECT_THAT(sharded_dims({1}, {1, 1}, 2), ElementsAre(-1));
  EXPECT_THAT(sharded_dims({0, 3}, {3, 0}, 2), ElementsAre(-1, -1));
}

} // namespace
} // namespace argosy::dtensor
