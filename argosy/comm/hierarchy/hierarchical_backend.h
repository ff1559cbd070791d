#pragma once

#include <memory>
#include <string>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/hierarchy/hosts.h"
#include "argosy/comm/message/failure_agreement.h"
#include "argosy/comm/message/messenger.h"

namespace argosy::comm::hierarchy {

struct HierarchySetup {
  std::string group; // its name in messages
  Hosts hosts;
  std::unique_ptr<Backend> host; // among those of this rank's host
  std::shared_ptr<message::Messenger> network; // among all members
  std::shared_ptr<message::FailureStore> failure_store;
};

// Collectives of several hosts: what a host has in common goes through its
// memory, and over the network once, between the hosts' leaders. A reduction
// adds up each host in rank order, then the hosts in theirs.
std::unique_ptr<Backend> make_hierarchical_backend(HierarchySetup setup);

} // namespace argosy::comm::hierarchy
