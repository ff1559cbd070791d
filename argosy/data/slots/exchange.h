#pragma once

#include <cstdint>
#include <memory>

#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/records.h"

namespace argosy::data {

// Deals the samples of all members of a group out among them, as the options
// say; `seed` must be the same on all. The order of the result depends on
// nothing else than the samples' places in memory. If it throws, the samples of
// this member are gone. Null: all ranks. A collective. Not installed.
Records exchange_records(
    const RecordLayout& layout,
    Records&& records,
    const GlobalShuffleOptions& options,
    std::uint64_t seed,
    const std::shared_ptr<Group>& group);

} // namespace argosy::data
