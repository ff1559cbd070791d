#include "argosy/pipeline/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "tests/support/refusal.h"

namespace argosy::pipeline {
namespace {

using ::testing::HasSubstr;
using testing::refusal;

using Borders = std::vector<int>;

TEST(Segment, UniformGivesTheRestToTheLastParts) {
  EXPECT_EQ(segment_uniform(8, 4), (Borders{0, 2, 4, 6, 8}));
  EXPECT_EQ(segment_uniform(10, 4), (Borders{0, 2, 4, 7, 10}));
  EXPECT_EQ(segment_uniform(3, 3), (Borders{0, 1, 2, 3}));
  EXPECT_EQ(segment_uniform(5, 1), (Borders{0, 5}));
  EXPECT_THAT(
      refusal([] { segment_uniform(3, 4); }),
      HasSubstr("3 layers, expected at least one for each of 4 parts"));
  EXPECT_THROW(segment_uniform(3, 0), InvalidArgument);
}

TEST(Segment, ByLayerCutsAfterTheMatches) {
  const std::vector<std::string> names{
      "Embedding",
      "GPTBlock",
      "Dropout",
      "gptblock",
      "GPTBlock",
      "Dropout",
      "GPTBlock",
      "LayerNorm",
      "Head"};
  EXPECT_EQ(segment_by_layer(names, "gptBLOCK", 2), (Borders{0, 4, 9}));
  EXPECT_EQ(segment_by_layer(names, "block", 4), (Borders{0, 2, 4, 5, 9}));
  EXPECT_EQ(segment_by_layer(names, "^G.*k$", 1), (Borders{0, 9}));
  EXPECT_EQ(segment_by_layer(names, "Drop|Head", 3), (Borders{0, 3, 6, 9}));
}

TEST(Segment, ByLayerRefusesWhatDoesNotDivide) {
  const std::vector<std::string> names{"Block", "Block", "Block"};
  EXPECT_THAT(
      refusal([&] { segment_by_layer(names, "block", 2); }),
      HasSubstr("3 layers match 'block', expected a multiple of 2 parts"));
  EXPECT_THROW(segment_by_layer(names, "Layer", 2), InvalidArgument);
  EXPECT_THAT(
      refusal([&] { segment_by_layer(names, "(block", 3); }),
      HasSubstr("\"(block\" is not a regular expression"));
}

TEST(Segment, ExplicitTakesStartsWithOrWithoutTheEnd) {
  EXPECT_EQ(segment_explicit({0, 2, 3}, 7, 3), (Borders{0, 2, 3, 7}));
  EXPECT_EQ(segment_explicit({0, 2, 3, 7}, 7, 3), (Borders{0, 2, 3, 7}));
  EXPECT_THAT(
      refusal([] {
        segment_explicit({0, 2}, 7, 3);
      }),
      HasSubstr("2 starts, expected one for each of 3 parts"));
  EXPECT_THAT(
      refusal([] {
        segment_explicit({1, 2, 3}, 7, 3);
      }),
      HasSubstr("layers 1 to 7, expected 0 to 7"));
  EXPECT_THAT(
      refusal([] {
        segment_explicit({0, 2, 3, 6}, 7, 3);
      }),
      HasSubstr("layers 0 to 6, expected 0 to 7"));
  EXPECT_THAT(
      refusal([] {
        segment_explicit({0, 3, 3}, 7, 3);
      }),
      HasSubstr("part 1 begins at layer 3"));
}

// The largest part, and the sum of squares.
std::pair<double, double> cost_of(
    const std::vector<double>& cost, const Borders& borders) {
  std::pair<double, double> all{0, 0};
  for (std::size_t part = 0; part + 1 < borders.size(); ++part) {
    double sum = 0;
    for (int i = borders[part]; i < borders[part + 1]; ++i) {
      sum += cost[i];
    }
    all = {std::max(all.first, sum), all.second + sum * sum};
  }
  return all;
}

// The best of all ways to cut.
std::pair<double, double> best_cost(
    const std::vector<double>& cost, int parts) {
  const int layers = static_cast<int>(cost.size());
  std::vector<int> is_border(layers - 1, 0);
  std::fill(is_border.end() - (parts - 1), is_border.end(), 1);
  std::pair<double, double> best = cost_of(cost, {0, layers});
  bool is_first = true;
  do {
    Borders borders{0};
    for (int i = 0; i < layers - 1; ++i) {
      if (is_border[i] != 0) {
        borders.push_back(i + 1);
      }
    }
    borders.push_back(layers);
    best = is_first ? cost_of(cost, borders)
                    : std::min(best, cost_of(cost, borders));
    is_first = false;
  } while (std::ranges::next_permutation(is_border).found);
  return best;
}

TEST(Segment, BalanceIsAsGoodAsTryingAll) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int layers = 1 + static_cast<int>(random() % 9);
    const int parts = 1 + static_cast<int>(random() % layers);
    std::vector<double> cost(layers);
    for (double& each : cost) {
      each = static_cast<double>(random() % 6); // so that there are ties
    }
    const Borders borders = balance(cost, parts);
    ASSERT_EQ(segment_explicit(borders, layers, parts), borders);
    EXPECT_EQ(cost_of(cost, borders), best_cost(cost, parts)) << round;
  }
}

TEST(Segment, BalanceOfEqualLayersIsEven) {
  EXPECT_EQ(
      balance(std::vector<double>(12, 0.1), 4), (Borders{0, 3, 6, 9, 12}));
  EXPECT_EQ(balance({9, 1, 1, 1, 1, 1, 1}, 3), (Borders{0, 1, 4, 7}));
  EXPECT_THROW(balance({1, 2}, 3), InvalidArgument);
  EXPECT_THAT(
      refusal([] {
        balance({1, -2, 3}, 2);
      }),
      HasSubstr("layer 1 costs -2"));
}

} // namespace
} // namespace argosy::pipeline
