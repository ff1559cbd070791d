// Which views are slices of their base.

#include "argosy/dtensor/ops/strided_view.h"

#include <gtest/gtest.h>

namespace argosy::dtensor {
namespace {

const Geometry kBase{{4, 6}, {6, 1}};

TEST(StridedView, FindsSlices) {
  EXPECT_EQ(
      strided_view(kBase, {{4, 2}, {6, 2}}, 1),
      (StridedView{{0, 1}, {0, 1}, {1, 2}}));
  EXPECT_EQ(
      strided_view(kBase, {{6}, {1}}, 12), (StridedView{{2, 0}, {1}, {1}}));
  EXPECT_EQ(
      strided_view(kBase, {{6, 4}, {1, 6}}, 0),
      (StridedView{{0, 0}, {1, 0}, {1, 1}}));
}

TEST(StridedView, TakesOneElementAndExpandedDimsAsNone) {
  EXPECT_EQ(
      strided_view(kBase, {{1, 3, 4}, {24, 0, 6}}, 5),
      (StridedView{{0, 5}, {-1, -1, 0}, {0, 0, 1}}));
}

TEST(StridedView, KnowsWhatIsNoSlice) {
  EXPECT_FALSE(strided_view(kBase, {{4}, {7}}, 0));             // a diagonal
  EXPECT_FALSE(strided_view(kBase, {{4, 2, 3}, {6, 3, 1}}, 0)); // a dim in two
  EXPECT_FALSE(strided_view(kBase, {{24}, {1}}, 0)); // two dims in one
}

} // namespace
} // namespace argosy::dtensor
