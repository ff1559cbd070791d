#include "argosy/expert/global_scatter.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
#include "argosy/expert/routing.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy::expert {
namespace {

using argosy::testing::run_ranks;

constexpr std::int64_t kExperts = 3; // of a rank

// Uneven, and some are 0.
std::int64_t count_of(int from, int to, std::int64_t expert) {
  return (from * 5 + to * 3 + expert * 2) % 4;
}

// A row says where it is from, where it goes, and its number there.
at::Tensor rows_of(int from, int to, std::int64_t expert) {
  const std::int64_t count = count_of(from, to, expert);
  at::Tensor rows = torch::empty({count, 4}, torch::kDouble);
  rows.select(1, 0).fill_(from);
  rows.select(1, 1).fill_(to);
  rows.select(1, 2).fill_(expert);
  rows.select(1, 3).copy_(torch::arange(count));
  return rows;
}

struct Case {
  at::Tensor local_count;
  at::Tensor sent;
  at::Tensor arrived;
};

Case case_of(int rank, int size) {
  Tensors sent;
  Tensors arrived;
  const at::Tensor counts = torch::empty({size * kExperts}, torch::kLong);
  for (int to = 0; to < size; ++to) {
    for (std::int64_t e = 0; e < kExperts; ++e) {
      counts[to * kExperts + e] = count_of(rank, to, e);
      sent.push_back(rows_of(rank, to, e));
    }
  }
  for (std::int64_t e = 0; e < kExperts; ++e) {
    for (int from = 0; from < size; ++from) {
      arrived.push_back(rows_of(from, rank, e));
    }
  }
  return {counts, torch::cat(sent), torch::cat(arrived)};
}

void check_exchange(World& world) {
  const GroupPtr group = get_group(0);
  const Case own = case_of(world.rank(), world.size());
  const at::Tensor global_count = exchange_counts(own.local_count, group);
  const at::Tensor x = own.sent.clone().requires_grad_();
  const auto calls = group->traffic().total().calls;
  const at::Tensor arrived =
      global_scatter(x, own.local_count, global_count, group);
  EXPECT_EQ(group->traffic().total().calls - calls, world.size() > 1 ? 1u : 0u);
  EXPECT_TRUE(torch::equal(arrived, own.arrived));
  const at::Tensor back =
      global_gather(arrived * 2, own.local_count, global_count, group);
  EXPECT_TRUE(torch::equal(back, own.sent * 2));
  // The second derivative goes there and back as the first does.
  const at::Tensor grad = torch::autograd::grad(
      {(back * back).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  EXPECT_TRUE(torch::equal(grad, own.sent * 8));
  const at::Tensor second =
      torch::autograd::grad({(grad * grad).sum()}, {x})[0];
  EXPECT_TRUE(torch::equal(second, own.sent * 128));
}

class GlobalExchange : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GlobalExchange, ::testing::Values(1, 2, 3, 4));

TEST_P(GlobalExchange, RowsAreByExpertAndThenByRank) {
  run_ranks(GetParam(), check_exchange);
}

TEST(GlobalExchangeProcesses, AreTheSame) {
  argosy::testing::run_process_ranks(2, check_exchange);
}

TEST_P(GlobalExchange, NothingIsSentWhereThereIsNothing) {
  run_ranks(GetParam(), [](World& world) {
    const at::Tensor none = torch::zeros({world.size() * 2}, torch::kLong);
    const at::Tensor x = torch::empty({0, 5}).requires_grad_();
    const at::Tensor arrived = global_scatter(x, none, none);
    EXPECT_EQ(arrived.sizes(), (std::vector<std::int64_t>{0, 5}));
    global_gather(arrived, none, none).sum().backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
  });
}

TEST(GlobalExchangeRanks, RefuseRowsThatAreNotCounted) {
  run_ranks(2, [](World&) {
    const at::Tensor one = torch::ones({2}, torch::kLong);
    EXPECT_THROW(
        global_scatter(torch::ones({3, 1}), one, one), InvalidArgument);
    EXPECT_THROW(global_gather(torch::ones({2}), one, one), InvalidArgument);
    EXPECT_THROW(
        global_scatter(torch::ones({2, 1}), one, one.to(torch::kInt)),
        InvalidArgument);
  });
}

} // namespace
} // namespace argosy::expert
