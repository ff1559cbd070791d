#pragma once

#include <chrono>
#include <string>

namespace argosy::python {

// Makes the calling thread a rank of the named world, which is formed by
// threads of this process. Blocks until all have joined.
void join_thread_ranks(
    const std::string& name,
    int rank,
    int size,
    std::chrono::milliseconds timeout);

// Call it when the calling thread's rank cannot continue: waits of the other
// ranks end with PeerLost.
void abort_thread_ranks(const std::string& name, const std::string& reason);

// Ends the world of the calling thread.
void leave_thread_ranks();

} // namespace argosy::python
