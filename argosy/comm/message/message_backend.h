#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/message/failure_agreement.h"
#include "argosy/comm/message/messenger.h"

namespace argosy::comm::message {

// All collectives and messages over a messenger. All members must make one.
// Through `failure_store`, members learn of failures when messages no longer
// get through; null: each member knows only its own. `labels` are the numbers
// of the ranks in errors; empty: 0, 1, ...
std::unique_ptr<Backend> make_message_backend(
    std::string group_name,
    std::unique_ptr<Messenger> messenger,
    std::shared_ptr<FailureStore> failure_store,
    std::vector<int> labels = {});

} // namespace argosy::comm::message
