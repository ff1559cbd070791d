#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <optional>

#include "argosy/common/deadline.h"
#include "argosy/store/secret.h"
#include "argosy/world/init.h"

namespace c10d {
class Store;
}

// Connects a rank to the store where it meets the others. Not installed.
namespace argosy {

struct JoinedStore {
  c10::intrusive_ptr<c10d::Store> store;
  std::optional<store::Secret> secret; // of the job, if it has one
  std::shared_ptr<void> server;        // keep it as long as the world
};

// Opens the store that `info` names, with a key prefix for job and attempt.
// A server that it starts lives as long as the process, for the next world.
JoinedStore connect(const LaunchInfo& info, Deadline deadline);

// Rank 0 serves a store on a free port and broadcasts its address, with a
// secret for the job if the environment gives none.
JoinedStore connect(
    const LaunchInfo& info,
    const TextBroadcast& from_rank_0,
    Deadline deadline);

} // namespace argosy
