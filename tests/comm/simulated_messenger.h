#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "argosy/comm/message/messenger.h"
#include "argosy/testing/simulation/simulation.h"

namespace argosy::testing {

// The network of a group of simulated ranks. Like TCP: messages of two ranks
// arrive in order, and the end of a connection after them.
class SimulatedWire {
 public:
  SimulatedWire(Simulation& simulation, std::vector<int> nodes)
      : simulation_(simulation), nodes_(std::move(nodes)) {}

  std::unique_ptr<comm::message::Messenger> messenger(int rank);

  // Ends the connections of a rank; the others notice after a while.
  void close(int rank);

 private:
  friend class SimulatedMessenger;
  friend class SimulatedReceipt;
  using Way = std::tuple<int, int, std::uint64_t>; // from, to, tag

  // After all that `from` has sent to `to`.
  void deliver(int from, int to, Simulation::Event event);
  void wake(int rank);
  bool is_closed(int rank, int peer) const {
    return closed_.contains({rank, peer});
  }

  Simulation& simulation_;
  const std::vector<int> nodes_; // by rank
  std::map<Way, std::deque<std::vector<std::byte>>> queues_;
  std::map<std::pair<int, int>, Timeline::TimePoint> last_arrival_;
  std::set<std::pair<int, int>> closed_; // as the first of the two sees it
  std::map<int, Simulation::TaskRef> waiting_; // by rank
};

} // namespace argosy::testing
