#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>

namespace c10d {
class Store;
}

namespace argosy::comm {
struct Members;
}

namespace argosy::comm::mpi {

// The next number of a world, from 1; nobody else gets it.
std::int64_t take_number(c10d::Store& world_store);

// A number that these members, and no others of the world, have. Returns when
// the first of them has come; throws TimeoutError at their deadline.
std::int64_t agree_on_channel(c10d::Store& world_store, const Members& members);

} // namespace argosy::comm::mpi
