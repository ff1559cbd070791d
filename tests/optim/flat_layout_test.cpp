// The plan of a flat buffer.

#include "argosy/optim/flat_layout.h"

#include <gtest/gtest.h>

#include <sstream>

#include "argosy/common/error.h"

namespace argosy::optim {
namespace {

TEST(FlatLayout, AlignsEachTensorAndTheEnd) {
  const FlatLayout layout = plan_flat({10, 1, 0, 16, 17}, 4);
  const std::vector<FlatSlot> expected = {
      {0, 10}, {16, 1}, {32, 0}, {32, 16}, {48, 17}};
  EXPECT_EQ(layout.slots, expected);
  EXPECT_EQ(layout.numel, 80);
}

TEST(FlatLayout, LeavesNoGapsWhenAlignedToAnElement) {
  const FlatLayout layout = plan_flat({10, 1, 3}, 2, 2);
  const std::vector<FlatSlot> expected = {{0, 10}, {10, 1}, {11, 3}};
  EXPECT_EQ(layout.slots, expected);
  EXPECT_EQ(layout.numel, 14);
}

TEST(FlatLayout, IsAValue) {
  EXPECT_EQ(plan_flat({3, 4}, 4), plan_flat({3, 4}, 4));
  EXPECT_NE(plan_flat({3, 4}, 4), plan_flat({4, 3}, 4));
  EXPECT_NE(plan_flat({3, 4}, 4), plan_flat({3, 4}, 4, 128));
  std::ostringstream text;
  text << plan_flat({3, 20}, 4);
  EXPECT_EQ(text.str(), "2 tensors in 48 elements of 4 bytes: [0, 3) [16, 36)");
}

TEST(FlatLayout, RefusesWhatCannotBe) {
  EXPECT_THROW(plan_flat({1}, 8, 4), InvalidArgument);
  EXPECT_THROW(plan_flat({1}, 4, 0), InvalidArgument);
  EXPECT_THROW(plan_flat({-1}, 4), InvalidArgument);
}

} // namespace
} // namespace argosy::optim
