#pragma once

#include "argosy/comm/ops.h"
#include "argosy/sequence_parallel/sequence_split.h"

namespace argosy::sequence_parallel {

// The group over which a sequence is split (null: that of the sep axis, or all
// ranks). Throws InvalidArgument, tagged with `op`, unless this rank is a
// member and the group has as many ranks as the split.
GroupPtr group_of_split(
    const GroupPtr& group, const SequenceSplit& split, const char* op);

} // namespace argosy::sequence_parallel
