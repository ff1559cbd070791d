#include "argosy/launch/node_assignment.h"

#include <functional>
#include <ostream>

namespace argosy::launch {

namespace {

int sum(const std::vector<Node>& nodes, std::size_t end, int Node::*count) {
  int total = 0;
  for (std::size_t i = 0; i < end; ++i) {
    total += nodes[i].*count;
  }
  return total;
}

// The endpoints of ports [begin, end) of each node.
std::vector<std::string> endpoints(
    const std::vector<Node>& nodes,
    const std::function<int(const Node&)>& begin,
    const std::function<int(const Node&)>& end) {
  std::vector<std::string> all;
  for (const Node& node : nodes) {
    const int num_processes = node.num_servers + node.num_workers;
    // One unknown endpoint makes the list useless, since ranks index it.
    if (node.address.empty() ||
        static_cast<int>(node.ports.size()) != num_processes) {
      return {};
    }
    for (int i = begin(node); i < end(node); ++i) {
      all.push_back(Endpoint{node.address, node.ports[i]}.text());
    }
  }
  return all;
}

} // namespace

int NodeAssignment::num_workers() const {
  return sum(nodes, nodes.size(), &Node::num_workers);
}

int NodeAssignment::num_servers() const {
  return sum(nodes, nodes.size(), &Node::num_servers);
}

int NodeAssignment::first_worker() const {
  return sum(nodes, node_rank, &Node::num_workers);
}

int NodeAssignment::first_server() const {
  return sum(nodes, node_rank, &Node::num_servers);
}

std::vector<std::string> NodeAssignment::worker_endpoints() const {
  return endpoints(
      nodes,
      [](const Node& node) { return node.num_servers; },
      [](const Node& node) { return node.num_servers + node.num_workers; });
}

std::vector<std::string> NodeAssignment::server_endpoints() const {
  return endpoints(
      nodes,
      [](const Node&) { return 0; },
      [](const Node& node) { return node.num_servers; });
}

std::ostream& operator<<(std::ostream& out, const NodeAssignment& assignment) {
  out << "job " << assignment.run_id << ", attempt " << assignment.attempt
      << ", node " << assignment.node_rank << "/" << assignment.num_nodes()
      << ", " << assignment.num_workers() << " workers";
  if (assignment.num_servers() > 0) {
    out << ", " << assignment.num_servers() << " servers";
  }
  return out << ", master " << assignment.master.text();
}

} // namespace argosy::launch
