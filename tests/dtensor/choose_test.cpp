// Which strategy is taken, without any op: a matmul of letters mk, kn -> mn.

#include "argosy/dtensor/ops/choose.h"

#include <gtest/gtest.h>

namespace argosy::dtensor {
namespace {

std::vector<Strategy> matmul(const AxisView&) {
  return {
      {{Shard(0), Replicate()}, {Shard(0)}},
      {{Replicate(), Shard(1)}, {Shard(1)}},
      {{Shard(1), Shard(0)}, {Partial()}}};
}

Choice choose_matmul(
    const Shape& mesh,
    const Shape& a,
    const Placements& placed_a,
    const Shape& b,
    const Placements& placed_b) {
  return choose(
      mesh,
      {{.shape = a, .placements = placed_a},
       {.shape = b, .placements = placed_b}},
      {{a[0], b[1]}},
      1,
      matmul);
}

TEST(Choose, TakesWhatNeedsNoCommunication) {
  const Shape a{64, 64};
  const auto on = [&](Placement x, Placement w) {
    return choose_matmul({2}, a, {x}, a, {w}).outputs[0];
  };
  EXPECT_EQ(on(Replicate(), Replicate()), Placements{Replicate()});
  EXPECT_EQ(on(Shard(0), Replicate()), Placements{Shard(0)});
  EXPECT_EQ(on(Replicate(), Shard(1)), Placements{Shard(1)});
  EXPECT_EQ(on(Shard(1), Shard(0)), Placements{Partial()});
  // An input that all have is cut where the other is.
  EXPECT_EQ(on(Replicate(), Shard(0)), Placements{Partial()});
}

TEST(Choose, MovesTheSmallerOfTwo) {
  const Shape small{64, 64};
  const Shape large{4096, 64};
  const Choice batch = choose_matmul({4}, large, {Shard(0)}, small, {Shard(0)});
  EXPECT_EQ(batch.inputs[0], Placements{Shard(0)});
  EXPECT_EQ(batch.inputs[1], Placements{Replicate()});
  const Choice wide =
      choose_matmul({4}, small, {Shard(0)}, {64, 4096}, {Shard(1)});
  EXPECT_EQ(wide.inputs[0], Placements{Replicate()});
  EXPECT_EQ(wide.inputs[1], Placements{Shard(1)});
}

TEST(Choose, DecidesEachAxisByItself) {
  const Choice choice = choose_matmul(
      {2, 4},
      {64, 64},
      {Shard(0), Replicate()},
      {64, 64},
      {Replicate(), Shard(1)});
  EXPECT_EQ(choice.outputs[0], (Placements{Shard(0), Shard(1)}));
  EXPECT_EQ(choice.inputs[0], (Placements{Shard(0), Replicate()}));
}

TEST(Choose, LeavesWhatIsWrittenWhereItIs) {
  const auto add = [](const AxisView&) -> std::vector<Strategy> {
    return {
        {{Shard(0), Shard(0)}, {Shard(0)}}, {{Shard(1), Shard(1)}, {Shard(1)}}};
  };
  const Operand self{
      .shape = {8, 8},
      .placements = {Shard(1)},
      .is_written = true,
      .output = 0};
  const Operand other{.shape = {8, 8}, .placements = {Shard(0)}};
  const Choice choice = choose({2}, {self, other}, {{8, 8}}, 1, add);
  EXPECT_EQ(choice.inputs[0], Placements{Shard(1)});
  EXPECT_EQ(choice.inputs[1], Placements{Shard(1)});
}

TEST(Choose, ShowsRulesWhatOuterAxesLeave) {
  std::vector<Shape> seen;
  std::vector<std::uint64_t> uneven;
  const auto watch = [&](const AxisView& view) -> std::vector<Strategy> {
    seen.push_back(view.shapes[0]);
    uneven.push_back(view.uneven[0]);
    return {{{Shard(0)}, {Shard(0)}}};
  };
  const Operand x{.shape = {7, 2}, .placements = {Shard(0), Shard(0)}};
  choose({2, 2}, {x}, {{7, 2}}, 1, watch);
  EXPECT_EQ(seen, (std::vector<Shape>{{7, 2}, {4, 2}}));
  EXPECT_EQ(uneven, (std::vector<std::uint64_t>{0, 1}));
}

} // namespace
} // namespace argosy::dtensor
