// Hosts whose links fail: for a moment, for good, or by losing packets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <thread>

#include "argosy/comm/call_timeout.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"
#include "tests/comm/host_ranks.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;
using argosy::testing::expect_all_pass;
using argosy::testing::HostRanks;
using argosy::testing::SeveralHosts;
using argosy::testing::thrown;
using ::testing::HasSubstr;

// Says that the network may be hurt from now on.
void say_ready() {
  barrier();
  std::cout << "READY" << std::endl;
}

// Right sums all along, while links fail for a moment.
void sums_all_along(World& world) {
  say_ready();
  for (int i = 0; i < 60; ++i) {
    at::Tensor data = torch::full({70000}, 1.0f * (i + world.rank()));
    all_reduce(data);
    EXPECT_EQ(data[69999].item<float>(), 4 * i + 6);
    std::this_thread::sleep_for(20ms);
  }
}

// The link between the hosts goes down for good.
void until_the_link_is_down(World& world) {
  say_ready();
  const auto began = std::chrono::steady_clock::now();
  try {
    const CallTimeout limit(2s);
    for (;;) {
      all_reduce(torch::ones({70000}));
    }
  } catch (const Error& error) { // a timeout, or a lost peer
    const std::string text = error.what();
    std::cout << "THROWN " << text.substr(0, text.find("; rank")) << std::endl;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 25s);
  // The store is out of reach of the other host.
  std::cout << std::flush;
  ::_exit(::testing::Test::HasFailure() ? world.rank() + 1 : 0);
}

// Not a test of its own: what every rank of the tests below runs.
TEST(HostRank, DISABLED_Run) {
  const std::map<std::string, void (*)(World&)> bodies = {
      {"sums_all_along", sums_all_along},
      {"until_the_link_is_down", until_the_link_is_down}};
  const auto world = init_parallel_env({.timeout = 40s});
  bodies.at(::getenv("BODY"))(*world);
  destroy_process_group();
}

// TCP repeats what is lost; nothing of ours gives up before its deadline.
TEST_F(SeveralHosts, GoOnWhenALinkFailsForAMoment) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("sums_all_along", "", [&] {
    for (int i = 0; i < 3; ++i) {
      ranks.network().set_link(1, "down");
      std::this_thread::sleep_for(150ms);
      ranks.network().set_link(1, "up");
      std::this_thread::sleep_for(150ms);
    }
  }));
}

TEST_F(SeveralHosts, GoOnWhenALinkIsSlowAndLosesPackets) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  ranks.network().slow_down(1);
  expect_all_pass(ranks.run("sums_all_along"));
}

TEST_F(SeveralHosts, NameTheOtherHostWhenItsLinkGoesDown) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  const auto outcomes =
      ranks.run("until_the_link_is_down", "ARGOSY_LOG=error", [&] {
        ranks.network().set_link(1, "down");
      });
  expect_all_pass(outcomes);
  // The neighbour on this host may not have come either ("rank 1-3"): it waits
  // for the same link.
  for (const int rank : {0, 1}) {
    EXPECT_THAT(
        thrown(outcomes[static_cast<std::size_t>(rank)]),
        ::testing::AnyOf(
            HasSubstr("rank 2"),
            HasSubstr("rank 3"),
            HasSubstr("-3 of group")));
  }
}

} // namespace
} // namespace argosy
