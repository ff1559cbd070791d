#pragma once

#include "argosy/common/deadline.h"
#include "argosy/world/launch_info.h"

namespace c10d {
class Store;
}

namespace argosy {

// Finds out which ranks share a host, through the store. All ranks call it;
// blocks. Not installed.
void find_local_ranks(c10d::Store& store, LaunchInfo& info, Deadline deadline);

} // namespace argosy
