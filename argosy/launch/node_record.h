#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "argosy/launch/node_assignment.h"
#include "argosy/launch/summary.h"

namespace argosy::launch {

// What a node publishes when it arrives at a rendezvous.
struct NodeRecord {
  Node node;
  std::optional<int> requested_rank{};
  int min_nodes = 1;
  int max_nodes = 1;
  std::uint16_t master_port = 0; // used if this node becomes node 0

  bool operator==(const NodeRecord&) const = default;
};

// By arrival number. Numbers may have gaps, because nodes can leave again.
using Arrivals = std::map<int, NodeRecord>;

// Returns the arrival numbers in node order: nodes that requested a rank get
// it, the others fill the gaps in order of arrival. Remaining gaps are closed.
std::vector<int> order_nodes(const Arrivals& arrivals);

// The nodes of an attempt as the node with that arrival number sees them; the
// id of the job and the number of the attempt are the caller's.
NodeAssignment assignment_of(const Arrivals& members, int arrival);

// Returns why these nodes cannot form a job: two request the same rank, or they
// differ in the number of nodes. nullopt if they can.
std::optional<std::string> find_conflict(const Arrivals& arrivals);

// Whether the conflict may be one launcher that was killed and started again:
// two nodes of one address request the same rank.
bool may_be_restarted(const Arrivals& arrivals);

// For the error at the deadline: "1 of 3 nodes came within 30 s: vm; node ranks
// 1, 2 are missing".
std::string missing_nodes_text(
    const Arrivals& arrivals, int expected, const std::string& limit);

// A failure of a launcher, not of a worker, now.
Failure launcher_failure(const std::string& host, std::string message);

// JSON for the store. The parsers throw StoreError.
std::string to_json(const NodeRecord& record);
NodeRecord parse_node_record(const std::string& text);
std::string to_json(const Arrivals& arrivals);
Arrivals parse_arrivals(const std::string& text);
std::string to_json(const Failure& failure);
Failure parse_failure(const std::string& text);

} // namespace argosy::launch
