#pragma once

#include <memory>
#include <optional>
#include <string>

#include "argosy/launch/node_assignment.h"
#include "argosy/launch/options.h"
#include "argosy/launch/summary.h"
#include "argosy/launch/supervisor.h"
#include "argosy/store/credentials.h"

namespace argosy::launch {

// This node's membership in a job: which nodes take part, and how they fare.
class Membership {
 public:
  virtual ~Membership() = default;

  // Meets the other nodes for the next attempt; blocks. Reserved ports are held
  // until the next call. Throws InvalidArgument, TimeoutError, StoreError.
  virtual NodeAssignment join() = 0;

  // Watches the other nodes during an attempt; null: not watched.
  virtual JobWatch* watch() = 0;

  // For notices of hangs; null: other nodes cannot be asked.
  virtual HangShare* hang_share() = 0;

  // Reports a failure on this node. The first reported failure of all nodes is
  // the job's root cause.
  virtual void report(const Failure& failure) = 0;

  // The root cause of the current attempt, if a node has reported one.
  virtual std::optional<Failure> root_cause() = 0;

  // Leaves the job; the node that serves the store leaves last. Does not throw.
  virtual void leave() = 0;
};

// For jobs that need no rendezvous: one node, several with static addresses, or
// parameter server jobs whose processes are all listed. If `store_url`, where
// the workers meet, is an etcd, launchers share notices of hangs there.
std::unique_ptr<Membership> make_static_membership(
    const RunOptions& options,
    const std::string& store_url = "",
    const store::Credentials& credentials = {});

// Returns the nodes in --servers and --trainers, in order of appearance. A pure
// function. Throws InvalidArgument when a host's endpoints are not contiguous.
std::vector<Node> listed_nodes(
    const std::vector<Endpoint>& servers,
    const std::vector<Endpoint>& trainers);

} // namespace argosy::launch
