#pragma once

#include <cstdint>
#include <memory>

#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/records.h"

namespace argosy::data {

// Deals the samples of all members of a group out among them, as the options
// say; `seed` must be the same on all. Samples that one member gets from
// another keep their order. Null: all ranks. A collective. Not installed.
Records exchange_records(
    const RecordLayout& layout,
    Records&& records,
    const GlobalShuffleOptions& options,
    std::uint64_t seed,
    const std::shared_ptr<Group>& group);

} // namespace argosy::data
