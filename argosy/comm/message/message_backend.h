#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/backend.h"
#include "argosy/comm/message/board.h"
#include "argosy/comm/message/messenger.h"

namespace argosy::comm::message {

// All collectives and messages over a messenger. `board` is how members learn
// of failures that messages do not tell any more; null: each sees its own.
// `labels` are what errors call the ranks; empty: as they are. All members must
// make one.
std::unique_ptr<Backend> make_message_backend(
    std::string group_name,
    std::unique_ptr<Messenger> messenger,
    std::shared_ptr<Board> board,
    std::vector<int> labels = {});

} // namespace argosy::comm::message
