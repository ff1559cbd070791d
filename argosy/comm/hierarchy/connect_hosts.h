#pragma once

#include <memory>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/backend/members.h"

namespace argosy::comm::hierarchy {

// Connects members that cannot all map each other's memory: through the memory
// of each host and the network between hosts, or through the network alone if
// every member is alone on its host. All members must call it; they come to the
// same answer.
std::unique_ptr<Backend> connect_hosts(
    const Members& members, const MakeNetwork& network);

} // namespace argosy::comm::hierarchy
