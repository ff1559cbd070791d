#pragma once

#include "argosy/common/deadline.h"
#include "argosy/world/launch_info.h"

namespace c10d {
class Store;
}

namespace argosy {

// Fills in which ranks share a host by having all ranks tell each other theirs.
// All ranks must call it. Not installed.
void find_local_ranks(c10d::Store& store, LaunchInfo& info, Deadline deadline);

} // namespace argosy
