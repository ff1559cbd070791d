#pragma once

#include <c10/util/intrusive_ptr.h>

#include "argosy/common/deadline.h"
#include "argosy/world/init.h"

namespace c10d {
class Store;
}

// Connects a rank to the store where it meets the others. Not installed.
namespace argosy {

// Opens the store that `info` names, with a key prefix for job and attempt.
// A server that it starts lives as long as the process, for the next world.
c10::intrusive_ptr<c10d::Store> connect(
    const LaunchInfo& info, Deadline deadline);

// Rank 0 serves a store on a free port and broadcasts its address.
c10::intrusive_ptr<c10d::Store> connect(
    const LaunchInfo& info,
    const TextBroadcast& from_rank_0,
    Deadline deadline);

} // namespace argosy
