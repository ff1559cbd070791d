#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/net.h"

namespace argosy {

enum class Role { Worker, Server, HeterWorker, Scheduler, Coordinator };

// How the ranks learn where rank 0 serves the store when nothing told them an
// address beforehand (world/address_exchange.h).
enum class AddressExchange {
  None,      // store_url says it, or nobody else is there
  LocalFile, // all ranks on one host: through a file of this user
  Pmi,       // through the process manager's PMI-1 connection
  Pmix,      // through the process manager's PMIx server
};

// The identity of this process, from environment variables (world/adopt.h) or
// spawn(). A plain value.
struct LaunchInfo {
  std::string source = "single"; // who provided it: "torchrun", "openmpi", ...
  Role role = Role::Worker;

  // Ranks count within a role: a job of 2 servers and 4 workers has workers 0
  // to 3 and servers 0 and 1.
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int node_rank = 0;
  int num_nodes = 1;
  // False if the launcher does not tell which ranks share a host: the four
  // numbers above are then guesses, and the ranks find out when they meet.
  bool knows_local = true;

  // Numbers of processes in the whole job.
  int num_workers = 1;
  int num_servers = 0;

  // If true, the scheduler assigns the rank when this process arrives, and rank
  // is -1 until then. `node_id` is the name to arrive under; may be empty.
  bool rank_by_arrival = false;
  std::string node_id = {};

  // Where the ranks meet; empty for a world of one, and when `address_exchange`
  // finds it out.
  std::string store_url = {};
  AddressExchange address_exchange = AddressExchange::None;
  // Whether this process serves the store or connects to it; for tcp:// only.
  bool serves_store = false;
  // Distinguishes jobs, and attempts of a job, in a shared store. Equal on all
  // ranks; may be empty.
  std::string run_id = {};
  int restart_count = 0;

  // Set by launchers that assign an endpoint to every process (Paddle's).
  std::optional<Endpoint> current_endpoint = {};
  std::vector<Endpoint> worker_endpoints = {};
  std::vector<Endpoint> server_endpoints = {};

  bool operator==(const LaunchInfo&) const = default;
};

std::string to_string(Role role);
std::string to_string(AddressExchange exchange);
std::ostream& operator<<(std::ostream& out, const LaunchInfo& info);

} // namespace argosy
