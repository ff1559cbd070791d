#pragma once

#include <cstdint>
#include <memory>

#include "argosy/comm/message/messenger.h"

namespace c10d {
class Store;
}

namespace argosy::comm {
class Backend;
struct Members;
} // namespace argosy::comm

// What the backend "mpi" needs of the library: the part without MPI.
namespace argosy::comm::mpi {

// The next number of a world, from 1; nobody else gets it.
std::int64_t take_number(c10d::Store& world_store);

// A number that these members, and no others of the world, have. Returns when
// the first of them has come; throws TimeoutError at their deadline.
std::uint64_t agree_on_channel(
    c10d::Store& world_store, const Members& members);

std::unique_ptr<Backend> make_mpi_backend(
    const Members& members, std::unique_ptr<message::Messenger> messenger);

} // namespace argosy::comm::mpi
