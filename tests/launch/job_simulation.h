#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "argosy/launch/membership.h"
#include "argosy/launch/options.h"
#include "argosy/testing/simulation/simulated_store.h"
#include "argosy/testing/simulation/simulation.h"
#include "tests/launch/job_invariants.h"

namespace argosy::testing {

// A job on a few machines whose launchers meet in a store, all simulated: the
// rendezvous and the leases are the real ones. A storm of faults comes first;
// when it is over, the job must complete. An operator starts launchers again
// that ended, as a batch system does.
class JobSimulation {
 public:
  explicit JobSimulation(std::uint64_t seed);

  // Throws Violation when an invariant does not hold.
  void run();

  Simulation& simulation() { return simulation_; }

  // Virtual time from the end of the storm until the job was done.
  std::chrono::nanoseconds recovery() const { return recovery_; }
  int num_attempts() const { return invariants_.num_attempts(); }

 private:
  // A computer, on which one launcher runs at a time.
  struct Machine {
    int node = -1; // of the simulation; changes with every start
    bool runs = false;
    bool completed = false;
  };
  // How often the faults come; 0: never.
  struct Storm {
    std::chrono::milliseconds length{0};
    double crash = 0; // per second and machine
    double pause = 0;
    double cut = 0;
    double stall = 0; // per second
    double fail = 0;  // of an attempt's workers
  };

  void choose();
  void choose_storm();
  void start(int machine);
  void launch(int machine, int node);
  int run_agent(
      int node,
      launch::Membership& membership,
      const launch::RunOptions& options);
  launch::Ending supervise(int node, launch::Membership& membership);
  void tell(int node, launch::Ending ending, launch::Membership& membership);
  launch::NodeRecord describe(int machine, int node);
  void ended(int machine, int node, int code);
  void rage();
  void calm();
  void step();
  void check_progress();
  void clean_up();
  void start_later(int machine, std::chrono::milliseconds delay);
  bool is_calm() const { return simulation_.elapsed() >= storm_.length; }
  bool happens(double per_second);
  std::chrono::milliseconds some(int first_ms, int last_ms);

  const StoreKind kind_;
  launch::RunOptions options_;
  std::vector<launch::RunOptions> machine_options_; // with requested ranks
  Storm storm_;
  NetworkFaults faults_;
  std::vector<Machine> machines_;
  std::map<int, std::uint16_t> ports_; // by node: of its last arrival
  std::uint16_t last_port_ = 0;
  int num_failures_ = 0;
  bool is_done_ = false;
  std::chrono::nanoseconds recovery_{0};

  SimulatedStore store_;
  JobInvariants invariants_;
  // Ends first, and with it the threads that use the rest.
  Simulation simulation_;
};

} // namespace argosy::testing
