#pragma once

#include <memory>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/backend/members.h"
#include "argosy/comm/message/messenger.h"

namespace argosy::comm::gloo {

// The Gloo library over TCP: the way to other hosts. Each rank listens on the
// address by which the others reach it.
std::unique_ptr<Backend> make_gloo_backend(const Members& members);

// Its messenger alone.
std::unique_ptr<message::Messenger> connect_gloo(const Members& members);

} // namespace argosy::comm::gloo
