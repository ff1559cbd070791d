#pragma once

#include <memory>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/backend/members.h"

namespace argosy::comm::hierarchy {

// For members that do not all see each other's memory: the memory of each host
// and the network between them; the network alone when each is alone on its
// host. All members call it and come to the same answer.
std::unique_ptr<Backend> connect_hosts(
    const Members& members, const MakeNetwork& network);

} // namespace argosy::comm::hierarchy
