#include "argosy/launch/roles.h"

#include <set>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::launch {

// Servers come first. The ports of a node (Node::ports) have the same order.
std::vector<WorkerIdentity> local_workers(
    const NodeAssignment& assignment, const std::string& role) {
  const Node& own = assignment.own();
  const bool has_servers = assignment.num_servers() > 0;
  std::vector<WorkerIdentity> workers;
  for (int i = 0; i < own.num_servers; ++i) {
    workers.push_back(
        {.role = "server",
         .server = true,
         .rank = assignment.first_server() + i,
         .size = assignment.num_servers(),
         .local_rank = i,
         .local_size = own.num_servers});
  }
  for (int i = 0; i < own.num_workers; ++i) {
    workers.push_back(
        {.role = has_servers ? "trainer" : role,
         .server = false,
         .rank = assignment.first_worker() + i,
         .size = assignment.num_workers(),
         .local_rank = i,
         .local_size = own.num_workers});
  }
  return workers;
}

namespace {

// Fluid has one port for all servers, so its variables are set only if the
// servers' addresses differ and their ports are equal.
Variables fluid_server_list(const NodeAssignment& assignment) {
  std::vector<std::string> addresses;
  std::set<std::uint16_t> ports;
  for (const Node& node : assignment.nodes) {
    for (int i = 0; i < node.num_servers; ++i) {
      addresses.push_back(node.address);
      ports.insert(node.ports[i]);
    }
  }
  const std::set<std::string> distinct(addresses.begin(), addresses.end());
  if (ports.size() != 1 || distinct.size() != addresses.size()) {
    return {};
  }
  return {
      {"PADDLE_PSERVER_PORT", str(*ports.begin())},
      {"PADDLE_PSERVER_IPS", join(addresses, ",")}};
}

} // namespace

Variables paddle_ps_variables(
    const WorkerIdentity& worker, const NodeAssignment& assignment) {
  const Node& own = assignment.own();
  // A node's ports are in the order of local_workers(): servers first.
  const int process = worker.local_rank + (worker.server ? 0 : own.num_servers);
  const std::string port = str(own.ports[process]);
  const char* role = worker.server ? "PSERVER" : "TRAINER";
  Variables variables = fluid_server_list(assignment);
  variables.insert({
      {"PADDLE_PSERVERS_IP_PORT_LIST",
       join(assignment.server_endpoints(), ",")},
      {"PADDLE_TRAINER_ENDPOINTS", join(assignment.worker_endpoints(), ",")},
      {"PADDLE_PORT", port},
      {"PADDLE_ROLE", role},
      {"TRAINING_ROLE", role},
      {"PADDLE_TRAINING_ROLE", role},
      {"PADDLE_TRAINERS_NUM", str(assignment.num_workers())},
      {"PADDLE_TRAINERS", str(assignment.num_workers())},
      {"PADDLE_NNODES", str(assignment.num_nodes())},
      {"POD_IP", own.address},
      {"PADDLE_CURRENT_IP", own.address},
      {"PADDLE_CURRENT_ENDPOINT", str(own.address, ":", port)},
      {"PADDLE_WITH_GLOO", "1"},
      {"PADDLE_GLOO_RENDEZVOUS", "3"},
      {"PADDLE_GLOO_HTTP_ENDPOINT", assignment.master.text()},
      // Workers also have torchrun's variables; this one tells Argosy which
      // ones describe the roles.
      {"ARGOSY_ADOPT", "paddle-ps"},
  });
  if (!worker.server) {
    variables["PADDLE_TRAINER_ID"] = str(worker.rank);
  }
  return variables;
}

} // namespace argosy::launch
