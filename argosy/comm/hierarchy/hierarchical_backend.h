#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/hierarchy/hosts.h"
#include "argosy/comm/message/failure_agreement.h"
#include "argosy/comm/message/messenger.h"

namespace argosy::comm::hierarchy {

struct HierarchySetup {
  std::string group;               // its name in messages
  std::vector<int> global_ranks{}; // of the members, for errors; empty: 0, ...
  Hosts hosts;
  std::unique_ptr<Backend> host; // of the ranks of this rank's host
  std::shared_ptr<message::Messenger> network; // of all members
  std::shared_ptr<message::FailureStore> failure_store;
};

// Collectives of several hosts: the ranks of a host combine their data in
// memory, and only the leaders of the hosts use the network. A reduction
// reduces each host in rank order, then the hosts in order.
std::unique_ptr<Backend> make_hierarchical_backend(HierarchySetup setup);

} // namespace argosy::comm::hierarchy
