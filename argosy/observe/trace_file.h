#pragma once

#include <filesystem>
#include <memory>

#include "argosy/observe/trace.h"

namespace argosy {
class Group;
}

namespace argosy::observe {

// Collects the traces of all members in one file, written atomically by rank 0
// of the group, which also creates missing folders. All members call it; blocks
// until the file exists. Throws SystemError on that rank only.
void write_trace(
    const std::filesystem::path& path,
    const RankTrace& own,
    const std::shared_ptr<Group>& group = nullptr);

} // namespace argosy::observe
