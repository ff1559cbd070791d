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

// Messages over the Gloo library's TCP transport, every rank connected to
// every other. All members call it with a store of their own, and listen on
// `address`. Throws TimeoutError or PeerLost when one does not come.
std::unique_ptr<message::Messenger> make_gloo_messenger(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const std::string& address,
    Deadline deadline);

} // namespace argosy::comm::gloo
