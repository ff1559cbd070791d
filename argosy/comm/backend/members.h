#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/store/secret.h"

namespace c10d {
class Store;
}

namespace argosy::comm {

class AbortNote;
class Backend;

namespace message {
class Messenger;
}

// The members of a group that are about to connect, seen from one of them.
struct Members {
  std::string group; // its name in messages
  int rank = 0;      // among the members
  std::vector<int> global_ranks;
  c10::intrusive_ptr<c10d::Store> store; // only the members use it
  Deadline deadline;
  // Written when the group is aborted while it connects; null: it never is.
  std::shared_ptr<const AbortNote> abort_note = {};

  // Only the members of this group know it; nullopt: the job has no secret.
  std::optional<store::Secret> key{};

  int size() const { return static_cast<int>(global_ranks.size()); }
};

// Connects the members. All of them must call it.
using MakeBackend =
    std::function<std::unique_ptr<Backend>(const Members& members)>;

// Connects members on several hosts, for messages alone.
using MakeNetwork =
    std::function<std::unique_ptr<message::Messenger>(const Members& members)>;

} // namespace argosy::comm
