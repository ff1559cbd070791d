#pragma once

#include <chrono>
#include <string>

namespace argosy::python {

// Makes the calling thread a rank of the world of that name, which threads of
// this process form: they meet in memory. Blocks until all have come.
void join_thread_ranks(
    const std::string& name,
    int rank,
    int size,
    std::chrono::milliseconds timeout);

// The calling thread's rank cannot go on: what the others of that world wait
// for ends with PeerLost.
void abort_thread_ranks(const std::string& name, const std::string& reason);

// Ends it for the calling thread.
void leave_thread_ranks();

} // namespace argosy::python
