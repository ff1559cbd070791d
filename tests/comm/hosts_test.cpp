// Groups of several hosts, which are network namespaces joined by a bridge,
// each with processes of its own: no memory is shared between them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "argosy/comm/call_timeout.h"
#include "argosy/comm/hierarchy/hosts.h"
#include "argosy/comm/ops.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"
#include "tests/comm/collective_checks.h"
#include "tests/comm/host_ranks.h"
#include "tests/support/thrown.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;
using argosy::testing::expect_all_pass;
using argosy::testing::HostRanks;
using argosy::testing::SeveralHosts;
using argosy::testing::thrown;
using argosy::testing::thrown_by;
using comm::hierarchy::Hosts;
using comm::hierarchy::partition;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Partition, GroupsThoseWhoSeeEachOther) {
  EXPECT_EQ(
      partition({{1, 0, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}}),
      (Hosts{{{0, 2}, {1, 3}}}));
  EXPECT_EQ(
      partition({{1, 1, 0}, {0, 1, 1}, {0, 1, 1}}), (Hosts{{{0}, {1, 2}}}))
      << "one way is not enough";
  EXPECT_EQ(partition({{1}}), (Hosts{{{0}}}));
}

TEST(Partition, KnowsPlaces) {
  const Hosts hosts{{{0}, {1, 3}, {2}}};
  EXPECT_EQ(hosts.num_ranks(), 4);
  EXPECT_EQ(hosts.host_of(3), 1);
  EXPECT_EQ(hosts.local_rank_of(3), 1);
  EXPECT_EQ(hosts.leaders(), (std::vector<int>{0, 1, 2}));
}

// ---- What the ranks do ------------------------------------------------------

void all_collectives(World& world) {
  EXPECT_EQ(get_backend(), ::getenv("EXPECTED_BACKEND"));
  for (const std::int64_t count : {0, 1, 7, 1024, 300000}) {
    SCOPED_TRACE(count);
    check_reductions(world, nullptr, count, torch::kFloat);
    check_copies(world, nullptr, count, torch::kFloat);
  }
  for (const auto type : {torch::kHalf, torch::kByte, torch::kComplexDouble}) {
    check_reductions(world, nullptr, 100, type);
    check_copies(world, nullptr, 100, type);
  }
  const int n = world.size();
  const at::Tensor all = everybodys(n, {1000}, torch::kInt);
  at::Tensor mine = all[world.rank()].clone();
  all_reduce(mine, ReduceOp::AVG);
  EXPECT_TRUE(
      torch::equal(mine, torch::div(all.sum(0), n, "trunc").to(torch::kInt)));
  for (int peer = 0; peer < n; ++peer) { // everybody to everybody
    at::Tensor in = torch::empty({2000}, torch::kInt);
    const int to = (world.rank() + peer) % n;
    const int from = (world.rank() - peer + n) % n;
    if (to == world.rank()) {
      continue;
    }
    const auto sent = isend(torch::full({2000}, world.rank(), torch::kInt), to);
    recv(in, from);
    sent->wait();
    EXPECT_EQ(in[1999].item<int>(), from);
  }
  barrier();
}

void one_large_sum(World&) {
  at::Tensor data = torch::ones({4 << 20});
  all_reduce(data);
  barrier();
}

void disagree(World& world) {
  EXPECT_THAT(
      thrown_by<InvalidArgument>(
          [&] { all_reduce(torch::ones({world.rank() == 3 ? 4 : 3})); }),
      AllOf(
          HasSubstr("rank 0 calls all_reduce of 3 float32, sum"),
          HasSubstr("rank 3 calls all_reduce of 4 float32, sum")));
}

bool is_one_of(int rank, const char* variable) {
  const auto words = split(::getenv(variable), ',');
  return std::find(words.begin(), words.end(), std::to_string(rank)) !=
      words.end();
}

// Rank 0 serves the store, and would wait for all to leave it.
void leave_without_the_dead(World& world) {
  const auto key = [](int rank) { return "done/" + std::to_string(rank); };
  world.store()->set(key(world.rank()), {1});
  for (int rank = 0; rank < world.size() && world.rank() == 0; ++rank) {
    if (!is_one_of(rank, "DYING")) {
      world.store()->get(key(rank));
    }
  }
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

void some_die(World& world) {
  at::Tensor data = torch::ones({1 << 18});
  const std::string text = thrown_by<PeerLost>([&] {
    for (int i = 0;; ++i) {
      if (i == 5 && is_one_of(world.rank(), "DYING")) {
        ::kill(::getpid(), SIGKILL);
      }
      all_reduce(data);
    }
  });
  std::cout << "THROWN " << text.substr(0, text.rfind("; rank")) << std::endl;
  leave_without_the_dead(world);
}

void one_stays_away(World& world) {
  barrier();
  if (world.rank() == 3) {
    world.store()->get("seen");
    return;
  }
  const CallTimeout limit(700ms);
  EXPECT_THAT(
      thrown_by<TimeoutError>([&] { all_reduce(torch::ones({70000})); }),
      AllOf(HasSubstr("rank 3 of group"), HasSubstr("all_reduce of 70000")));
  if (world.rank() == 0) {
    world.store()->set("seen", {1});
  }
}

// Not a test of its own: what every rank of the tests below runs.
TEST(HostRank, DISABLED_Run) {
  const std::map<std::string, void (*)(World&)> bodies = {
      {"all_collectives", all_collectives},
      {"one_large_sum", one_large_sum},
      {"disagree", disagree},
      {"some_die", some_die},
      {"one_stays_away", one_stays_away}};
  const auto world = init_parallel_env({.timeout = 40s});
  bodies.at(::getenv("BODY"))(*world);
  destroy_process_group();
}

// ---- Tests ------------------------------------------------------------------

TEST_F(SeveralHosts, EqualOneProcessOnTwoTimesTwo) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(
      ranks.run("all_collectives", "EXPECTED_BACKEND=auto:shm+gloo"));
}

TEST_F(SeveralHosts, EqualOneProcessOnHostsThatDiffer) {
  const HostRanks ranks({{{0}, {1, 2}, {3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(
      ranks.run("all_collectives", "EXPECTED_BACKEND=auto:shm+gloo"));
}

TEST_F(SeveralHosts, EqualOneProcessWhereRanksAlternate) {
  const HostRanks ranks({{{0, 2}, {1, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(
      ranks.run("all_collectives", "EXPECTED_BACKEND=auto:shm+gloo"));
}

TEST_F(SeveralHosts, ThatHaveOneRankEachUseTheNetworkAlone) {
  const HostRanks ranks({{{0}, {1}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("all_collectives", "EXPECTED_BACKEND=gloo"));
}

// 16 MB leave each host once, not once for each rank.
TEST_F(SeveralHosts, SendASumOverTheNetworkOnce) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("one_large_sum"));
  for (int host = 0; host < 2; ++host) {
    const double sent = static_cast<double>(ranks.network().bytes_from(host));
    EXPECT_GT(sent, 16e6) << "host " << host;
    EXPECT_LT(sent, 19e6) << "host " << host;
  }
}

TEST_F(SeveralHosts, AllNameADisagreement) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("disagree"));
}

TEST_F(SeveralHosts, AllNameWhoDoesNotCome) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("one_stays_away"));
}

TEST_F(SeveralHosts, NoticeARankThatDies) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  const auto outcomes = ranks.run("some_die", "DYING=3");
  EXPECT_EQ(outcomes[3].status, 128 + SIGKILL);
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(outcomes[rank].status, 0) << outcomes[rank].output;
    EXPECT_THAT(
        thrown(outcomes[rank]),
        AllOf(
            HasSubstr("all_reduce of 262144 float32, sum"),
            HasSubstr("rank 3 of group 0 died")));
  }
}

TEST_F(SeveralHosts, NoticeAHostThatDies) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  const auto outcomes = ranks.run("some_die", "DYING=2,3");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(outcomes[rank].status, 0) << outcomes[rank].output;
    EXPECT_THAT(thrown(outcomes[rank]), HasSubstr("rank 2 of group 0"));
  }
}

} // namespace
} // namespace argosy
