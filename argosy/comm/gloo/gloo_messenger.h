#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "argosy/comm/message/messenger.h"
#include "argosy/common/deadline.h"

namespace c10d {
class Store;
}

namespace argosy::comm::gloo {

// Messages over Gloo's TCP transport, with a connection between every two
// ranks. All members must call it with a store that only they use; each listens
// on `address`. Throws TimeoutError or PeerLost if one does not connect.
std::unique_ptr<message::Messenger> make_gloo_messenger(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const std::string& address,
    Deadline deadline);

} // namespace argosy::comm::gloo
