#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "argosy/common/net.h"

namespace argosy::launch {

// What one node brings into a job.
struct Node {
  std::string host;      // its name, for people
  std::string address{}; // where the others reach it; empty: not known
  int num_servers = 0;
  int num_workers = 1;
  // A reserved port per process, servers first; empty: not known.
  std::vector<std::uint16_t> ports{};

  bool operator==(const Node&) const = default;
};

// Who takes part in one attempt of a job, and which node this is. The same on
// all nodes but for node_rank.
struct NodeAssignment {
  std::string run_id = "none";
  int attempt = 0; // counts restarts
  int node_rank = 0;
  std::vector<Node> nodes;
  Endpoint master; // where worker 0 is to serve the store

  const Node& own() const { return nodes[node_rank]; }
  int num_nodes() const { return static_cast<int>(nodes.size()); }
  int num_workers() const;
  int num_servers() const;
  // The global rank of this node's first worker, or server.
  int first_worker() const;
  int first_server() const;
  // By global rank; empty unless all addresses and ports are known.
  std::vector<std::string> worker_endpoints() const;
  std::vector<std::string> server_endpoints() const;

  bool operator==(const NodeAssignment&) const = default;
};

std::ostream& operator<<(std::ostream& out, const NodeAssignment& assignment);

} // namespace argosy::launch
