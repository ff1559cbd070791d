#include "argosy/expert/routing.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/common/error.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy::expert {
namespace {

at::Tensor longs(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, torch::kLong);
}

void expect_equal(
    const at::Tensor& got, const std::vector<std::int64_t>& expected) {
  EXPECT_TRUE(torch::equal(got.reshape({-1}), longs(expected))) << got;
}

TEST(Routing, CountsWithoutTheDropped) {
  expect_equal(number_count(longs({0, 2, -1, 2, 0, 2}), 4), {2, 0, 3, 0});
  expect_equal(number_count(longs({}), 2), {0, 0});
  EXPECT_THROW(number_count(longs({4}), 4), InvalidArgument);
  EXPECT_THROW(number_count(longs({-2}), 4), InvalidArgument);
  EXPECT_THROW(number_count(torch::ones({2}), 4), InvalidArgument);
}

TEST(Routing, PositionsAreByExpertAndInOrder) {
  const at::Tensor experts = longs({2, 0, -1, 2, 0, 1}).view({3, 2});
  const at::Tensor counts = number_count(experts, 3);
  expect_equal(assign_pos(experts, counts.cumsum(0)), {1, 4, 5, 0, 3});
  expect_equal(assign_pos(longs({-1, -1}), longs({0, 0})), {});
  EXPECT_THROW(assign_pos(longs({0, 0}), longs({1, 1})), InvalidArgument);
}

// Two experts on three ranks.
TEST(Routing, CapacityGoesToTheFirstRanksFirst) {
  expect_equal(
      limit_by_capacity(longs({3, 1, 4, 1, 5, 9}), longs({5, 3}), 3),
      {3, 1, 2, 1, 0, 1});
  EXPECT_THROW(
      limit_by_capacity(longs({3, 1, 4}), longs({5, 3}), 2), InvalidArgument);
}

TEST(Routing, PrunesInTokenOrder) {
  expect_equal(
      prune_gate_by_capacity(longs({1, 0, 1, -1, 1, 0, 2}), longs({1, 2, 0})),
      {1, 0, 1, -1, -1, -1, -1});
}

TEST(Routing, SecondChoicesAreTakenByChance) {
  const at::Tensor experts = longs({0, 1, 2, 3, 1, 2}).view({3, 2});
  const at::Tensor value =
      torch::tensor({0.9, 0.1, 0.6, 0.4, 0.5, 0.5}).view({3, 2});
  expect_equal(
      random_routing(experts, value, torch::tensor({0.5, 0.7, 1.0})),
      {0, -1, 2, 3, 1, 2});
  EXPECT_THROW(
      random_routing(experts, value, torch::ones({2})), InvalidArgument);
}

// Expert 1 has room for two: the first choices of tokens 0 and 2.
TEST(Routing, FirstChoicesAreTakenBeforeSecondOnes) {
  const at::Tensor experts = longs({1, 0, 0, 1, 1, 2}).view({3, 2});
  expect_equal(limit_by_source(experts, 3, 2), {1, 0, 0, -1, 1, 2});
  expect_equal(
      prune_gate_by_capacity(experts, longs({2, 2, 2})), {1, 0, 0, 1, -1, 2});
}

// Every rank wants to send its number + 1 rows to each expert, which takes 4.
TEST(RoutingRanks, CapacityIsThatOfAllRanks) {
  argosy::testing::run_ranks(3, [](World& world) {
    const std::int64_t rows = world.rank() + 1;
    const at::Tensor experts =
        torch::arange(6).repeat({rows}).view({-1, 2}).contiguous();
    const at::Tensor kept = limit_over_ranks(experts, 6, 4, get_group(0));
    const std::vector<std::int64_t> taken = {1, 2, 1};
    expect_equal(
        number_count(kept, 6),
        std::vector<std::int64_t>(6, taken[world.rank()]));
    expect_equal(
        exchange_counts(number_count(experts, 6), get_group(0)),
        {1, 1, 2, 2, 3, 3});
  });
}

// Five experts on three ranks, which have 2, 2 and 1 of them; and two experts,
// of which the last rank has none.
TEST(RoutingRanks, CountsOfExpertsThatDoNotDivide) {
  argosy::testing::run_ranks(3, [](World& world) {
    const GroupPtr group = get_group(0);
    const long base = world.rank() * 10;
    const at::Tensor sent = torch::arange(base, base + 5);
    const std::vector<std::vector<std::int64_t>> arrived = {
        {0, 1, 10, 11, 20, 21}, {2, 3, 12, 13, 22, 23}, {4, 14, 24}};
    const at::Tensor counts = exchange_counts(sent, group);
    expect_equal(counts, arrived[world.rank()]);
    EXPECT_TRUE(torch::equal(return_counts(counts, 5, group), sent));
    EXPECT_THROW(return_counts(counts, 8, group), InvalidArgument);
    const at::Tensor few = exchange_counts(longs({1, 2}), group);
    EXPECT_EQ(few.numel(), world.rank() < 2 ? 3 : 0);
    expect_equal(return_counts(few, 2, group), {1, 2});
    // Each rank wants 2 rows of every expert, which takes 3.
    const at::Tensor experts = torch::arange(5).repeat({2}).view({-1, 1});
    const std::vector<std::int64_t> taken = {2, 1, 0};
    expect_equal(
        number_count(limit_over_ranks(experts, 5, 3, group), 5),
        std::vector<std::int64_t>(5, taken[world.rank()]));
  });
}

} // namespace
} // namespace argosy::expert
