// Thousands of simulated jobs under faults; docs/simulation.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/launch/rendezvous.h"
#include "tests/launch/job_simulation.h"
#include "tests/support/seeds.h"

namespace argosy::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

// A node that meets others in a simulated store.
class SimulatedNode {
 public:
  SimulatedNode(Simulation& simulation, SimulatedStore& store, std::string name)
      : simulation_(simulation),
        store_(store),
        name_(std::move(name)),
        node_(simulation.add_node(name_)) {
    options_.rdzv.backend = launch::RdzvBackend::Tcp;
    options_.rdzv.run_id = "job";
    options_.rdzv.keep_alive = 2s;
  }

  int number() const { return node_; }
  launch::RunOptions& options() { return options_; }

  // What it told its user, and when, in seconds.
  const std::vector<std::pair<long, std::string>>& told() const {
    return told_;
  }

  // On a thread of its own.
  void run(const std::function<void(launch::Membership&)>& act) {
    simulation_.spawn(node_, [this, act] { act(*membership()); });
  }

 private:
  std::unique_ptr<launch::Membership> membership() {
    return launch::make_rendezvous(
        options_,
        {.url = "tcp",
         .address = name_,
         .server = {},
         .kv = store_.client(node_)},
        launch::RendezvousNode{
            .pause = [](std::chrono::milliseconds time) { sleep_for(time); },
            .describe = [this] { return describe(); },
            .tell =
                [this](const std::string& text) {
                  const auto now = simulation_.elapsed();
                  told_.emplace_back(
                      std::chrono::round<std::chrono::seconds>(now).count(),
                      text);
                }});
  }

  launch::NodeRecord describe() const {
    return {
        .node = {.host = name_, .address = name_},
        .requested_rank = options_.node_rank,
        .min_nodes = options_.min_nodes,
        .max_nodes = options_.max_nodes};
  }

  Simulation& simulation_;
  SimulatedStore& store_;
  const std::string name_;
  const int node_;
  launch::RunOptions options_;
  std::vector<std::pair<long, std::string>> told_;
};

// The launcher that served the store is gone for good. A node whose workers are
// done waits for it to come back, but not for ever.
TEST(LostStore, EndsANodeThatIsDone) {
  Simulation simulation(1);
  SimulatedStore store(simulation, StoreKind::Tcp);
  SimulatedNode node(simulation, store, "n");
  std::chrono::nanoseconds ended{0};
  node.run([&](launch::Membership& membership) {
    membership.join();
    store.cut(node.number(), true);
    const auto began = simulation.clock();
    while (!membership.watch()->must_stop()) {
      EXPECT_FALSE(membership.watch()->all_done());
      sleep_for(50ms);
    }
    ended = simulation.clock() - began;
    EXPECT_THAT(
        membership.root_cause()->message, HasSubstr("lost the store at tcp"));
  });
  simulation.run(10min, [] {});
  EXPECT_GT(ended, 10s);
  EXPECT_LT(ended, 15s);
}

SimulatedNode& add_node_of_three(
    std::list<SimulatedNode>& nodes,
    Simulation& simulation,
    SimulatedStore& store,
    int rank) {
  SimulatedNode& node =
      nodes.emplace_back(simulation, store, str("host", rank));
  node.options().min_nodes = node.options().max_nodes = 3;
  node.options().node_rank = rank;
  node.options().rdzv.timeout = 60s;
  return node;
}

// Who waits says for whom: after 5 s, then four times a minute, with the latest
// state of things.
TEST(Waiting, TellsWhoIsMissing) {
  Simulation simulation(1);
  SimulatedStore store(simulation, StoreKind::Tcp);
  std::list<SimulatedNode> nodes;
  SimulatedNode& first = add_node_of_three(nodes, simulation, store, 0);
  SimulatedNode& second = add_node_of_three(nodes, simulation, store, 1);
  std::string error;
  first.run([&](launch::Membership& membership) {
    try {
      membership.join();
    } catch (const TimeoutError& timeout) {
      error = timeout.what();
    }
  });
  second.run([](launch::Membership& membership) {
    sleep_for(12s);
    EXPECT_THROW(membership.join(), Error);
  });
  simulation.run(10min, [] {});
  ASSERT_EQ(first.told().size(), 4u);
  EXPECT_EQ(first.told()[0].first, 5);
  EXPECT_THAT(
      first.told()[0].second,
      AllOf(
          HasSubstr("--rdzv-id job at tcp: 1 of 3 nodes came within 5"),
          HasSubstr("; missing node ranks: 1, 2; waiting up to 60 s")));
  EXPECT_EQ(first.told()[1].first, 20);
  EXPECT_THAT(
      first.told()[1].second,
      AllOf(
          HasSubstr("2 of 3 nodes came within 20"),
          HasSubstr("missing node ranks: 2;")));
  EXPECT_EQ(first.told()[3].first, 50);
  EXPECT_THAT(error, HasSubstr("missing node ranks: 2"));
}

TEST(Waiting, IsSilentWhileAllIsWell) {
  Simulation simulation(1);
  SimulatedStore store(simulation, StoreKind::Tcp);
  std::list<SimulatedNode> nodes;
  for (int rank = 0; rank < 3; ++rank) {
    add_node_of_three(nodes, simulation, store, rank)
        .run([rank](launch::Membership& membership) {
          sleep_for(rank * 2s); // the last comes after 4 s
          membership.join();
          membership.leave();
        });
  }
  simulation.run(10min, [] {});
  for (const SimulatedNode& node : nodes) {
    EXPECT_THAT(node.told(), IsEmpty());
  }
}

} // namespace
} // namespace argosy::testing
