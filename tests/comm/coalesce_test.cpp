// Several operations as one; streams; limits of single calls.

#include "argosy/comm/coalesce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/comm/call_timeout.h"
#include "argosy/comm/collector.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
#include "argosy/compat/stream.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using comm::Op;
using comm::OpKind;

std::vector<std::size_t> lengths(const std::vector<Op>& ops) {
  std::vector<std::size_t> result;
  for (const auto& batch : comm::fuse(ops, std::vector<WorkPtr>(ops.size()))) {
    result.push_back(batch.ops.size());
  }
  return result;
}

TEST(Fuse, TakesNeighboursOfOneKindTypeRootAndReduction) {
  const at::Tensor f = torch::ones({2});
  const at::Tensor i = torch::ones({2}, torch::kInt);
  const Op sum{.kind = OpKind::AllReduce, .in = {f}};
  const Op most{.kind = OpKind::AllReduce, .in = {f}, .reduce = ReduceOp::MAX};
  const Op integers{.kind = OpKind::AllReduce, .in = {i}};
  const Op from0{.kind = OpKind::Broadcast, .in = {f}, .root = 0};
  const Op from1{.kind = OpKind::Broadcast, .in = {f}, .root = 1};
  const Op message{.kind = OpKind::Send, .in = {f}, .root = 1};
  using Lengths = std::vector<std::size_t>;
  EXPECT_EQ(lengths({}), Lengths());
  EXPECT_EQ(lengths({sum, sum, sum}), Lengths({3}));
  EXPECT_EQ(lengths({sum, most, sum}), Lengths({1, 1, 1}));
  EXPECT_EQ(lengths({sum, sum, integers, integers}), Lengths({2, 2}));
  EXPECT_EQ(lengths({from0, from0, from1}), Lengths({2, 1}));
  EXPECT_EQ(lengths({message, message}), Lengths({1, 1}));
}

comm::Traffic traffic_of(OpKind kind) {
  return get_group()->traffic().of(kind);
}

TEST(Coalesce, ManyTensorsInOneCall) {
  argosy::testing::run_ranks(3, [](World& world) {
    Tensors tensors;
    for (int i = 0; i < 10; ++i) {
      tensors.push_back(torch::full({i, 2}, float(i + world.rank())));
    }
    tensors.push_back(torch::full({4, 3}, 1.0f).t());
    const auto works = all_reduce_coalesced(tensors);
    EXPECT_EQ(works.size(), 1u);
    EXPECT_EQ(traffic_of(OpKind::AllReduce), (comm::Traffic{1, (90 + 12) * 4}));
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(torch::equal(tensors[i], torch::full({i, 2}, 3.0f * i + 3)));
    }
    EXPECT_TRUE(torch::equal(tensors[10], torch::full({3, 4}, 3.0f)));
  });
}

TEST(Coalesce, EveryKindGivesWhatItGivesAlone) {
  argosy::testing::run_ranks(2, [](World& world) {
    const int rank = world.rank();
    const auto of = [](int r, int i, std::int64_t rows) {
      return torch::arange(rows * 3).reshape({rows, 3}) + 100 * r + 10 * i;
    };
    Tensors gathered = {
        torch::empty({2, 3}, torch::kLong), torch::empty({4, 3}, torch::kLong)};
    Tensors lists;
    at::Tensor part = torch::empty({1, 3}, torch::kLong);
    at::Tensor part2 = torch::empty({2, 3}, torch::kLong);
    at::Tensor swapped = torch::empty({2, 3}, torch::kLong);
    at::Tensor swapped2 = torch::empty({4, 3}, torch::kLong);
    at::Tensor sent = of(rank, 5, 2);
    const auto works = coalesce([&] {
      all_gather(gathered[0], of(rank, 0, 1));
      all_gather(gathered[1], of(rank, 1, 2));
      all_gather(lists, of(rank, 2, 1));
      reduce_scatter(part, of(rank, 0, 2));
      reduce_scatter(part2, of(rank, 1, 4));
      alltoall_single(swapped, of(rank, 0, 2));
      alltoall_single(swapped2, of(rank, 1, 4));
      broadcast(sent, 1);
    });
    EXPECT_EQ(works.size(), 4u);
    EXPECT_EQ(get_group()->traffic().total().calls, 4u);
    const auto both = [&](int i, std::int64_t rows) {
      return torch::cat({of(0, i, rows), of(1, i, rows)});
    };
    EXPECT_TRUE(torch::equal(gathered[0], both(0, 1)));
    EXPECT_TRUE(torch::equal(gathered[1], both(1, 2)));
    EXPECT_TRUE(torch::equal(torch::cat(lists), both(2, 1)));
    const auto sum = [&](int i, std::int64_t rows) {
      return (of(0, i, rows) + of(1, i, rows)).chunk(2)[rank];
    };
    EXPECT_TRUE(torch::equal(part, sum(0, 2)));
    EXPECT_TRUE(torch::equal(part2, sum(1, 4)));
    const auto exchanged = [&](int i, std::int64_t rows) {
      return torch::cat(
          {of(0, i, rows).chunk(2)[rank], of(1, i, rows).chunk(2)[rank]});
    };
    EXPECT_TRUE(torch::equal(swapped, exchanged(0, 2)));
    EXPECT_TRUE(torch::equal(swapped2, exchanged(1, 4)));
    EXPECT_TRUE(torch::equal(sent, of(1, 5, 2)));
  });
}

TEST(Coalesce, NothingIsIssuedWhenTheBodyThrows) {
  argosy::testing::run_ranks(2, [](World&) {
    at::Tensor value = torch::ones({1});
    EXPECT_THROW(
        coalesce([&] {
          all_reduce(value);
          throw Error("no");
        }),
        Error);
    EXPECT_EQ(get_group()->traffic().total().calls, 0u);
    all_reduce(value);
    EXPECT_EQ(value.item<float>(), 2);
  });
}

TEST(Coalesce, WorkOfEachOperationEndsWithItsCall) {
  argosy::testing::run_ranks(2, [](World& world) {
    at::Tensor good = torch::ones({2});
    at::Tensor bad = torch::ones({world.rank() + 1});
    WorkPtr first;
    WorkPtr second;
    const auto works = coalesce(
        [&] {
          first = all_reduce(good);
          second = all_reduce(bad, ReduceOp::MAX);
        },
        nullptr,
        false);
    ASSERT_EQ(works.size(), 2u);
    wait(first);
    EXPECT_EQ(good[0].item<float>(), 2);
    EXPECT_THROW(wait(second), InvalidArgument);
    EXPECT_THROW(wait(works[1]), InvalidArgument);
  });
}

TEST(Stream, CalculationStreamIsForSynchronousCalls) {
  argosy::testing::run_ranks(2, [](World& world) {
    at::Tensor value = torch::full({2}, world.rank() + 1.0f);
    stream::all_reduce(value, ReduceOp::SUM, nullptr, true, true);
    EXPECT_EQ(value[0].item<float>(), 3);
    const auto work = stream::all_reduce(value, ReduceOp::MAX, nullptr, false);
    wait(value);
    EXPECT_TRUE(work->is_completed());
    try {
      stream::broadcast(value, 0, nullptr, false, true);
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("use_calc_stream"));
    }
    at::Tensor rows = torch::empty({2});
    stream::alltoall(rows, torch::arange(2.0f) + 10 * world.rank());
    EXPECT_TRUE(
        torch::equal(rows, torch::arange(2.0f) * 10 + float(world.rank())));
    at::Tensor part = torch::empty({1});
    stream::scatter(part, torch::tensor({5.0f, 6.0f}), 1);
    EXPECT_EQ(part.item<float>(), 5.0f + float(world.rank()));
  });
}

TEST(CallTimeout, LimitsTheCallsInItsScope) {
  using namespace std::chrono_literals;
  argosy::testing::run_ranks(2, [](World& world) {
    const auto group = new_group();
    barrier(group);
    if (world.rank() == 0) {
      const CallTimeout limit(100ms);
      EXPECT_EQ(CallTimeout::current(), 100ms);
      const auto began = std::chrono::steady_clock::now();
      EXPECT_THROW(barrier(group), TimeoutError);
      EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
    }
    EXPECT_EQ(CallTimeout::current(), std::nullopt);
    barrier();
  });
}

} // namespace
} // namespace argosy
