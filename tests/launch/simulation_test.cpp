// Thousands of simulated jobs under faults; docs/simulation.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/launch/rendezvous.h"
#include "tests/launch/job_simulation.h"
#include "tests/support/seeds.h"

namespace argosy::testing {
namespace {

constexpr SeedRange kSeeds{1, 7'000};

TEST(JobSimulation, CompletesAfterAnyStorm) {
  run_seeds<JobSimulation>(kSeeds);
}

TEST(JobSimulation, SoakCompletesAfterAnyStorm) {
  run_seeds<JobSimulation>({1'000'001, 1'200'000});
}

TEST(JobSimulation, RunsTheSameWayAgain) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    expect_same_run<JobSimulation>(seed);
  }
}

// The launcher that served the store is gone for good. A node whose workers are
// done waits for it to come back, but not for ever.
TEST(LostStore, EndsANodeThatIsDone) {
  using namespace std::chrono_literals;
  Simulation simulation(1);
  SimulatedStore store(simulation, StoreKind::Tcp);
  const int node = simulation.add_node("n");
  launch::RunOptions options;
  options.rdzv.backend = launch::RdzvBackend::Tcp;
  options.rdzv.run_id = "job";
  options.rdzv.keep_alive = 2s;
  std::chrono::nanoseconds ended{0};
  simulation.spawn(node, [&] {
    const auto membership = launch::make_rendezvous(
        options,
        {.url = "tcp", .address = "n", .server = {}, .kv = store.client(node)},
        launch::RendezvousNode{
            .pause = [](std::chrono::milliseconds time) { sleep_for(time); },
            .describe =
                [] {
                  return launch::NodeRecord{
                      .node = {.host = "n", .address = "n"}};
                }});
    membership->join();
    store.cut(node, true);
    const auto began = simulation.clock();
    while (!membership->watch()->must_stop()) {
      EXPECT_FALSE(membership->watch()->all_done());
      sleep_for(50ms);
    }
    ended = simulation.clock() - began;
    EXPECT_THAT(
        membership->root_cause()->message,
        ::testing::HasSubstr("lost the store at tcp"));
  });
  simulation.run(10min, [] {});
  EXPECT_GT(ended, 10s);
  EXPECT_LT(ended, 15s);
}

} // namespace
} // namespace argosy::testing
