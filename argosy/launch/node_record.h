#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "argosy/launch/node_assignment.h"
#include "argosy/launch/summary.h"

namespace argosy::launch {

// What a node tells the others when it arrives at a rendezvous.
struct NodeRecord {
  Node node;
  std::optional<int> requested_rank{};
  int min_nodes = 1;
  int max_nodes = 1;
  std::uint16_t master_port = 0; // in case this node becomes node 0

  bool operator==(const NodeRecord&) const = default;
};

// By order of arrival, which is not dense: nodes may have left again.
using Arrivals = std::map<int, NodeRecord>;

// The order of the nodes, as arrival numbers: nodes that asked for a rank get
// it, the others fill the gaps as they came. Gaps that remain close up.
std::vector<int> order_nodes(const Arrivals& arrivals);

// What makes these nodes no job: two that ask for the same rank, or differ in
// the number of nodes. Nothing when all is well.
std::optional<std::string> find_conflict(const Arrivals& arrivals);

// "1 of 3 nodes came within 30 s: vm; node ranks 1, 2 are missing": for the
// error at the deadline.
std::string missing_nodes_text(
    const Arrivals& arrivals, int expected, const std::string& limit);

// Records as text for the store. The readers throw StoreError.
std::string to_json(const NodeRecord& record);
NodeRecord parse_node_record(const std::string& text);
std::string to_json(const Arrivals& arrivals);
Arrivals parse_arrivals(const std::string& text);
std::string to_json(const Failure& failure);
Failure parse_failure(const std::string& text);

} // namespace argosy::launch
