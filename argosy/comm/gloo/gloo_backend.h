#pragma once

#include <memory>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/backend/members.h"
#include "argosy/comm/message/messenger.h"

namespace argosy::comm::gloo {

// Collectives over Gloo's TCP transport. Each rank listens on the address by
// which the others reach it. All members must call it.
std::unique_ptr<Backend> make_gloo_backend(const Members& members);

// The messenger alone.
std::unique_ptr<message::Messenger> connect_gloo(const Members& members);

} // namespace argosy::comm::gloo
