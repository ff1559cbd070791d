#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "argosy/store/kv.h"
#include "argosy/store/kv_table.h"
#include "argosy/testing/simulation/simulation.h"

namespace argosy::testing {

// How messages between nodes and the store fare. Probabilities are of a single
// message.
struct NetworkFaults {
  std::chrono::microseconds shortest{100}; // the delay of most messages
  std::chrono::microseconds longest{2000};
  double slow = 0; // takes up to `slowest`, and so may be overtaken
  std::chrono::microseconds slowest{4'000'000};
  double lost = 0;   // nobody hears of it
  double broken = 0; // lost, and the sender notices
  double twice = 0;  // a request that arrives twice
};

// Which real store the simulated one behaves as.
enum class StoreKind {
  // A call whose connection breaks is repeated if that is harmless, else it
  // throws StoreError; see TcpKv.
  Tcp,
  // A call is repeated until its deadline and takes effect at most once. Leases
  // last longer after an outage; see EtcdKv.
  Etcd,
};

// The server of a store, beside the nodes. The keys and leases are those of the
// real server.
class SimulatedStore {
 public:
  SimulatedStore(Simulation& simulation, StoreKind kind)
      : simulation_(simulation), kind_(kind) {}

  // The store as a node sees it, over a network of its own. This must outlive
  // it.
  std::shared_ptr<store::Kv> client(int node);

  void set_faults(const NetworkFaults& faults) { faults_ = faults; }

  // Cuts a node off from the store, or reconnects it.
  void cut(int node, bool is_cut);
  bool is_cut(int node) const { return cut_.contains(node); }

  // The store serves nobody for a time: requests wait.
  void stall(std::chrono::nanoseconds time);

  // Expires leases before it returns the table.
  store::KvTable& table();

  // Counts what may have changed the table.
  std::uint64_t num_changes() const { return num_changes_; }

  // Throws Violation if a node takes its lease for alive although the store
  // has none such.
  void check_leases();

 private:
  friend class SimulatedKv;
  friend class SimulatedLease;

  // What a node asks for, and what becomes of it.
  struct Request {
    std::string what; // for the trace
    bool writes = false;
    std::function<void(store::KvTable&)> run;
    bool executed = false;
    std::exception_ptr refused{};
  };
  // One sending of a request.
  struct Try {
    enum class State { Open, Answered, Broken };
    int node = 0;
    Simulation::TaskRef task{};
    State state = State::Open;
  };
  using RequestPtr = std::shared_ptr<Request>;
  using TryPtr = std::shared_ptr<Try>;

  void send(const RequestPtr& request, const TryPtr& sent);
  void arrive(const RequestPtr& request, const TryPtr& sent);
  void execute(Request& request, int node);
  void answer(const TryPtr& sent);
  void end(const TryPtr& sent, Try::State state);
  bool is_lost(const TryPtr& sent);
  std::chrono::microseconds delay();

  Simulation& simulation_;
  const StoreKind kind_;
  NetworkFaults faults_;
  store::KvTable table_;
  std::uint64_t num_changes_ = 0;
  std::set<int> cut_;
  Timeline::TimePoint stalled_until_{};
  std::map<std::int64_t, const class SimulatedLease*> leases_;
};

} // namespace argosy::testing
