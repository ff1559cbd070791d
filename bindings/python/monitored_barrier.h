#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace argosy::python {

// A barrier through the store, which says who did not come and leaves the group
// usable. Rank 0 waits for all others and throws TimeoutError naming the first
// that is missing, or with `name_all` every one; the others throw when rank 0
// did. `number` counts the calls, alike on all ranks.
void monitored_barrier(
    c10d::Store& store,
    int rank,
    int num_ranks,
    int number,
    std::chrono::milliseconds timeout,
    bool name_all);

} // namespace argosy::python
