#pragma once

#include <memory>
#include <string>

#include "argosy/common/environment.h"
#include "argosy/launch/node_assignment.h"
#include "argosy/launch/options.h"

namespace argosy::store {
class KvServer;
}

// The store where the ranks meet, when the launcher of node 0 serves it instead
// of rank 0: it then survives every rank.
namespace argosy::launch {

// Whether the launchers of this job do so. Not if the user names another store.
bool launcher_serves_ranks(
    const RunOptions& options, const Environment& environment);

// Where the ranks find it, for ARGOSY_STORE.
std::string ranks_store_url(const NodeAssignment& assignment);

// Serves it at the master's place; null on other nodes than the first. Reads
// the credentials that workers get from `environment`. Throws StoreError.
std::unique_ptr<store::KvServer> serve_ranks(
    const NodeAssignment& assignment, const Environment& environment);

} // namespace argosy::launch
