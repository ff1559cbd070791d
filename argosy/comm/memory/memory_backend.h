#pragma once

#include <memory>
#include <string>

#include "argosy/comm/backend.h"
#include "argosy/comm/memory/shared_team.h"

namespace argosy::comm::memory {

// A backend for ranks that can see each other's memory: "inproc" when all are
// threads of one process, "shm" otherwise. All members must call it. Throws
// SystemError, on all of them, when some memory cannot be seen.
std::unique_ptr<Backend> make_memory_backend(
    std::string group_name,
    int rank,
    int size,
    const GatherStrings& gather_strings,
    const MemoryOptions& options = {});

} // namespace argosy::comm::memory
