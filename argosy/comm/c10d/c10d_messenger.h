#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "argosy/comm/message/messenger.h"

namespace c10d {
class ProcessGroup;
}

namespace argosy::comm {

// Messages over the sends and receives of a c10d process group, which must
// allow several of them at once, as Gloo's and MPI's do.
std::unique_ptr<message::Messenger> make_c10d_messenger(
    c10::intrusive_ptr<c10d::ProcessGroup> group);

} // namespace argosy::comm
