#pragma once

#include <memory>
#include <vector>

#include "argosy/comm/message/messenger.h"

namespace argosy::comm::message {

// A messenger among some ranks of another, with tags that begin at `first_tag`.
// Aborting it aborts the whole.
std::unique_ptr<Messenger> make_sub_messenger(
    std::shared_ptr<Messenger> whole,
    std::vector<int> ranks,
    std::uint64_t first_tag);

} // namespace argosy::comm::message
