#pragma once

#include <c10/util/intrusive_ptr.h>

#include "argosy/common/deadline.h"
#include "argosy/world/init.h"

namespace c10d {
class Store;
}

// How a rank gets to the store where it meets the others. Not installed.
namespace argosy {

// The store that `info` names, with the prefix of its job and attempt.
c10::intrusive_ptr<c10d::Store> connect(
    const LaunchInfo& info, Deadline deadline);

// Rank 0 serves a store on a free port and tells the others where it is.
c10::intrusive_ptr<c10d::Store> connect(
    const LaunchInfo& info,
    const TextBroadcast& from_rank_0,
    Deadline deadline);

} // namespace argosy
