#pragma once

#include <memory>

#include "argosy/comm/backend/members.h"

namespace argosy::comm {

class MemberWatch;

// Connects with `make`, and watches the other members meanwhile, also where
// `make` waits for a transport that knows nothing of them. Ends at the members'
// deadline even if neither the transport nor the store answers: `make` runs on
// a thread of its own, which is left behind then. Throws what `make` throws,
// and what the watch finds out. Not installed.
std::unique_ptr<Backend> connect_watched(
    const MakeBackend& make,
    const Members& members,
    const std::shared_ptr<MemberWatch>& watch);

} // namespace argosy::comm
