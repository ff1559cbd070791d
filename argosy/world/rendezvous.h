#pragma once

#include <string>

#include "argosy/common/deadline.h"

namespace c10d {
class Store;
}

namespace argosy {

// Blocks until all `size` ranks have called it on the same store. `who`
// describes this process in messages to others.
//
// Throws InvalidArgument, on both sides, when two processes claim one rank or
// sizes differ; TimeoutError, naming the missing ranks.
void rendezvous(
    c10d::Store& store,
    int rank,
    int size,
    const std::string& who,
    Deadline deadline);

// Assigns ranks to `size` processes that have none. All of them call it;
// blocks. Ranks are ordered by address and then `id`, so that ranks of one host
// are contiguous.
int rank_by_arrival(
    c10d::Store& store,
    int size,
    const std::string& address,
    const std::string& id,
    Deadline deadline);

// The key that a rank sets when it leaves the world on purpose.
std::string departure_key(int rank);

} // namespace argosy
