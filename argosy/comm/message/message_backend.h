#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/message/failure_agreement.h"
#include "argosy/comm/message/messenger.h"

namespace argosy::comm::message {

// All collectives and messages over a messenger. `failure_store` is how members
// learn of failures that messages do not tell any more; null: each sees its
// own. `labels` are what errors call the ranks; empty: as they are. All members
// must make one.
std::unique_ptr<Backend> make_message_backend(
    std::string group_name,
    std::unique_ptr<Messenger> messenger,
    std::shared_ptr<FailureStore> failure_store,
    std::vector<int> labels = {});

} // namespace argosy::comm::message
