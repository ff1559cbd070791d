#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace argosy::python {

// A barrier through the store that reports missing ranks and leaves the group
// usable. Rank 0 waits for all others; it throws TimeoutError naming the first
// missing rank or, if `name_all`, all of them. The others throw if rank 0 did.
// `number` counts the calls and must be equal on all ranks. Blocks.
void monitored_barrier(
    c10d::Store& store,
    int rank,
    int num_ranks,
    int number,
    std::chrono::milliseconds timeout,
    bool name_all);

} // namespace argosy::python
