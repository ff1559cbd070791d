// Thousands of simulated groups whose ranks fail; docs/simulation.md.

#include <gtest/gtest.h>

#include "tests/comm/group_simulation.h"
#include "tests/support/seeds.h"

namespace argosy::testing {
namespace {

TEST(GroupSimulation, AgreesOnEveryFailure) {
  run_seeds<GroupSimulation>({1, 3'000});
}

TEST(GroupSimulation, SoakAgreesOnEveryFailure) {
  run_seeds<GroupSimulation>({1'000'001, 1'100'000});
}

TEST(GroupSimulation, RunsTheSameWayAgain) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    expect_same_run<GroupSimulation>(seed);
  }
}

} // namespace
} // namespace argosy::testing
