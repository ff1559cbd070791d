#pragma once

#include <cstdint>

#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/records.h"

namespace argosy::data {

// Makes one sample of all that have the same id; see GlobalShuffleOptions. The
// result is ordered by the first sample of each id. `drops_zeros`: that of the
// format that the samples were read with. Not installed.
MergeCounts merge_by_id(
    const RecordLayout& layout,
    Records& records,
    std::int64_t merge_size,
    bool drops_zeros);

} // namespace argosy::data
