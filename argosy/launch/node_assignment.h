#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "argosy/common/net.h"

namespace argosy::launch {

// What one node contributes to a job.
struct Node {
  std::string host;      // host name, for messages
  std::string address{}; // where other nodes reach it; empty: unknown
  int num_servers = 0;
  int num_workers = 1;
  // A reserved port per process, servers first; empty: unknown.
  std::vector<std::uint16_t> ports{};

  bool operator==(const Node&) const = default;
};

// The nodes of one attempt, and which of them this is. Equal on all nodes
// except for node_rank.
struct NodeAssignment {
  std::string run_id = "none";
  int attempt = 0; // number of restarts so far
  int node_rank = 0;
  std::vector<Node> nodes;
  Endpoint master; // where worker 0 serves the store

  const Node& own() const { return nodes[node_rank]; }
  int num_nodes() const { return static_cast<int>(nodes.size()); }
  int num_workers() const;
  int num_servers() const;
  // Global rank of this node's first worker or server.
  int first_worker() const;
  int first_server() const;
  // By global rank; empty unless all addresses and ports are known.
  std::vector<std::string> worker_endpoints() const;
  std::vector<std::string> server_endpoints() const;

  bool operator==(const NodeAssignment&) const = default;
};

std::ostream& operator<<(std::ostream& out, const NodeAssignment& assignment);

} // namespace argosy::launch
