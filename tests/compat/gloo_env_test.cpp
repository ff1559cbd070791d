// The side channel of ranks that need have no world.

#include "argosy/compat/gloo_env.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "argosy/comm/objects.h"
#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/world/world.h"
#include "tests/support/free_port.h"

namespace argosy {
namespace {

std::string free_endpoint() {
  return Endpoint{"127.0.0.1", testing::free_port()}.text();
}

TEST(GlooEnv, BarriersAmongThreads) {
  const std::string endpoint = free_endpoint();
  constexpr int kRanks = 3;
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      gloo_init_parallel_env(rank, kRanks, endpoint);
      for (int round = 1; round <= 5; ++round) {
        ++arrived;
        gloo_barrier();
        EXPECT_GE(arrived.load(), round * kRanks);
        gloo_barrier();
      }
      EXPECT_THROW(
          gloo_init_parallel_env(rank, kRanks, endpoint), InvalidArgument);
      gloo_release();
      EXPECT_THROW(gloo_barrier(), InvalidArgument);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(GlooEnv, AmongProcessesBesideTheirWorld) {
  argosy::testing::run_process_ranks(2, [](World& world) {
    std::vector<std::string> endpoint = {free_endpoint()};
    broadcast_object_list(endpoint, 0);
    for (int round = 0; round < 2; ++round) {
      gloo_init_parallel_env(world.rank(), world.size(), endpoint[0]);
      gloo_barrier();
      gloo_release();
      barrier(); // the endpoint is free again
    }
  });
}

TEST(GlooEnv, RefusesRanksThatCannotBe) {
  EXPECT_THROW(gloo_init_parallel_env(2, 2, "127.0.0.1:1"), InvalidArgument);
  EXPECT_THROW(gloo_init_parallel_env(0, 0, "127.0.0.1:1"), InvalidArgument);
  EXPECT_THROW(gloo_init_parallel_env(0, 2, "nowhere"), InvalidArgument);
  EXPECT_THROW(gloo_release(), InvalidArgument);
}

} // namespace
} // namespace argosy
