#pragma once

#include <memory>
#include <optional>

#include "argosy/launch/node_assignment.h"
#include "argosy/launch/options.h"
#include "argosy/launch/summary.h"
#include "argosy/launch/supervisor.h"

namespace argosy::launch {

// This node's part in a job: who takes part, and how the others fare.
class Membership {
 public:
  virtual ~Membership() = default;

  // Meets the other nodes for the next attempt; ports it reserves are held
  // until the next call. Throws InvalidArgument, TimeoutError, StoreError.
  virtual NodeAssignment join() = 0;

  // How the other nodes are watched during an attempt; null: not at all.
  virtual JobWatch* watch() = 0;

  // Tells the other nodes of a failure here. The job's root cause is what was
  // told first, here or there.
  virtual void report(const Failure& failure) = 0;

  // The root cause of the current attempt, if a node reported one.
  virtual std::optional<Failure> root_cause() = 0;

  // Leaves for good, the node that serves the store last. Does not throw.
  virtual void leave() = 0;
};

// For jobs that need no exchange: one node, several with static addresses, or
// parameter servers that are all listed.
std::unique_ptr<Membership> make_static_membership(const RunOptions& options);

// The nodes that --servers and --trainers list, in order of appearance. Pure.
// Throws InvalidArgument when a host's endpoints do not stand together.
std::vector<Node> listed_nodes(
    const std::vector<Endpoint>& servers,
    const std::vector<Endpoint>& trainers);

} // namespace argosy::launch
