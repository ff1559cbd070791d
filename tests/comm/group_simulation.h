#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "argosy/comm/backend/backend.h"
#include "argosy/testing/simulation/simulated_store.h"
#include "argosy/testing/simulation/simulation.h"
#include "tests/comm/simulated_messenger.h"

namespace argosy::testing {

// A group of ranks that run collectives, simulated: the collectives and the
// agreement on failures are the real ones. Some ranks crash, stop, come late,
// abort or call something else; the others must end in time, with one error
// that blames only those.
class GroupSimulation {
 public:
  explicit GroupSimulation(std::uint64_t seed);

  // Throws Violation when an invariant does not hold.
  void run();

  Simulation& simulation() { return simulation_; }

 private:
  enum class Act { Crash, PowerOff, Pause, Absence, Abort, Disagreement };
  struct Fault {
    Act act = Act::Crash;
    int op = 0; // during which it comes
    std::chrono::milliseconds delay{0};
  };
  struct Rank {
    int node = 0;
    std::optional<Fault> fault{};
    int num_completed = 0;
    std::string error{}; // empty: none
    bool ended = false;
    bool lost_store = false; // its word did not reach the store
  };

  void choose();
  void live(int rank);
  void run_op(int rank, int op, comm::Backend& backend);
  void act(int rank, const Fault& fault, comm::Backend& backend);
  void check_end(int rank);
  void check_all();
  void check_blame(const std::string& error);
  bool is_healthy(int rank) const;

  std::vector<Rank> ranks_;
  int num_ops_ = 0;
  std::chrono::milliseconds limit_{0};
  NetworkFaults faults_;
  bool store_is_sound_ = true;

  SimulatedStore store_;
  std::unique_ptr<SimulatedWire> wire_;
  // Ends first, and with it the threads that use the rest.
  Simulation simulation_;
};

} // namespace argosy::testing
