#pragma once

#include <filesystem>
#include <memory>

#include "argosy/observe/trace.h"

namespace argosy {
class Group;
}

namespace argosy::observe {

// Puts what all members of the group kept into one file, which rank 0 of the
// group writes, whole or not at all, with the folders above it. All members
// must call it; it returns when the file is there. Throws SystemError on that
// rank alone.
void write_trace(
    const std::filesystem::path& path,
    const RankTrace& own,
    const std::shared_ptr<Group>& group = nullptr);

} // namespace argosy::observe
