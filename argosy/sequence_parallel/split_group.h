#pragma once

#include "argosy/comm/ops.h"
#include "argosy/sequence_parallel/sequence_split.h"

namespace argosy::sequence_parallel {

// The group (null: that of the sep axis, or of all ranks) that a sequence is
// split over. Throws
// InvalidArgument, tagged with `op`, when it has not as many ranks, or not this
// one.
GroupPtr group_of_split(
    const GroupPtr& group, const SequenceSplit& split, const char* op);

} // namespace argosy::sequence_parallel
