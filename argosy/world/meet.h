#pragma once

#include <string>

#include "argosy/common/deadline.h"

namespace c10d {
class Store;
}

namespace argosy {

// Returns when all `size` ranks have called it on the same store. `who` says
// which process we are, for the messages that others get about us.
//
// Throws InvalidArgument when two processes claim one rank or the sizes differ
// (on both sides), TimeoutError that names the ranks that are missing.
void meet(
    c10d::Store& store,
    int rank,
    int size,
    const std::string& who,
    Deadline deadline);

// Hands out ranks to processes that do not know theirs: all `size` of them call
// it, and get distinct ranks, ordered by address and then by `id`, so that the
// ranks of one host are neighbours.
int rank_by_arrival(
    c10d::Store& store,
    int size,
    const std::string& address,
    const std::string& id,
    Deadline deadline);

// Set by a rank that leaves the world on purpose.
std::string farewell_key(int rank);

} // namespace argosy
