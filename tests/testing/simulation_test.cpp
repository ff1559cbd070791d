#include "argosy/testing/simulation/simulation.h"

#include <gtest/gtest.h>

#include "argosy/common/deadline.h"
#include "argosy/testing/simulation/simulated_store.h"

namespace argosy::testing {
namespace {

using namespace std::chrono_literals;

void nothing() {}

TEST(Simulation, TheClockJumpsWhileAllWait) {
  Simulation simulation(1);
  std::vector<int> order;
  for (const int hours : {3, 1, 2}) {
    simulation.spawn(simulation.add_node("n"), [&order, hours] {
      const Deadline deadline = Deadline::after(std::chrono::hours(hours));
      sleep_for(std::chrono::hours(hours));
      EXPECT_TRUE(deadline.expired());
      order.push_back(hours);
    });
  }
  simulation.run(24h, nothing);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(simulation.elapsed(), 3h);
}

TEST(Simulation, ASeedDecidesTheOrder) {
  const auto order_of = [](std::uint64_t seed) {
    std::string order;
    Simulation simulation(seed);
    for (const char name : {'a', 'b', 'c', 'd'}) {
      simulation.spawn(simulation.add_node("n"), [&order, name] {
        for (int i = 0; i < 3; ++i) {
          order += name;
          sleep_for(1s);
        }
      });
    }
    simulation.run(1min, nothing);
    return order;
  };
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
}

TEST(Simulation, ACrashUnwindsEveryThreadOfItsNode) {
  Simulation simulation(1);
  struct Guard {
    int& count;
    ~Guard() { ++count; }
  };
  int unwound = 0;
  int survived = 0;
  const int victim = simulation.add_node("victim");
  const auto live = [&] {
    const Guard guard{unwound};
    // A thread that its owner stops, also while it unwinds.
    const auto background = start_background([&](Background::Sleeper& sleeper) {
      const Guard inner{unwound};
      while (sleeper.sleep_until(time_now() + 1s)) {
      }
    });
    sleep_for(10s);
    ++survived;
  };
  simulation.spawn(victim, live);
  simulation.spawn(simulation.add_node("other"), live);
  simulation.after(5s, [&] { simulation.crash(victim); });
  simulation.run(1min, nothing);
  EXPECT_EQ(unwound, 4);
  EXPECT_EQ(survived, 1);
}

// Fibers of one thread share what the C++ runtime keeps of exceptions.
TEST(Simulation, AThreadMayWaitInsideACatchBlock) {
  Simulation simulation(1);
  std::vector<std::string> caught;
  for (const std::string name : {"one", "two", "three"}) {
    simulation.spawn(simulation.add_node(name), [&caught, name] {
      try {
        throw StoreError(name);
      } catch (const StoreError&) {
        sleep_for(1s);
        try {
          throw; // its own
        } catch (const StoreError& error) {
          sleep_for(1s);
          EXPECT_STREQ(error.what(), StoreError(name).what());
          caught.push_back(name);
        }
      }
    });
  }
  simulation.run(1min, nothing);
  EXPECT_EQ(caught.size(), 3u);
}

TEST(Simulation, APausedNodeDoesNothing) {
  Simulation simulation(1);
  const int node = simulation.add_node("n");
  std::chrono::nanoseconds woke{0};
  simulation.spawn(node, [&] {
    sleep_for(2s);
    woke = simulation.elapsed();
  });
  simulation.after(1s, [&] { simulation.pause(node, 5s); });
  simulation.run(1min, nothing);
  EXPECT_EQ(woke, 6s);
}

TEST(Simulation, WhatNeverEndsIsNamed) {
  Simulation simulation(1);
  simulation.spawn(simulation.add_node("sleeper"), [] {
    while (true) {
      sleep_for(1s);
    }
  });
  try {
    simulation.run(1h, nothing);
    ADD_FAILURE() << "it ended";
  } catch (const Violation& violation) {
    EXPECT_NE(std::string(violation.what()).find("sleeper"), std::string::npos);
  }
}

TEST(SimulatedStore, ANodeThatIsCutOffLosesItsLease) {
  std::unique_ptr<SimulatedStore> store;
  Simulation simulation(1);
  store = std::make_unique<SimulatedStore>(simulation, StoreKind::Etcd);
  const int node = simulation.add_node("n");
  simulation.spawn(node, [&] {
    const auto kv = store->client(node);
    const auto lease = kv->grant(2s, Deadline::after(1s));
    kv->set("k", "v", Deadline::after(1s), lease.get());
    sleep_for(10s);
    EXPECT_TRUE(lease->alive());
    EXPECT_EQ(kv->get("k", Deadline::after(1s)), "v");
    store->cut(node, true);
    EXPECT_THROW(kv->get("k", Deadline::after(1s)), TimeoutError);
    EXPECT_TRUE(lease->alive());
    sleep_for(2s);
    EXPECT_FALSE(lease->alive());
    EXPECT_EQ(store->table().get("k"), std::nullopt);
    store->cut(node, false);
    EXPECT_THROW(
        kv->set("k", "v", Deadline::after(1s), lease.get()), StoreError);
  });
  simulation.run(1min, [&] { store->check_leases(); });
}

} // namespace
} // namespace argosy::testing
