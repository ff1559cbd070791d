#pragma once

// What the backend "mpi" needs of the library: the part without MPI.

#include <cstdint>
#include <functional>
#include <memory>

#include "argosy/comm/message/messenger.h"

namespace argosy {
class World;
}

namespace argosy::comm {
struct Members;
}

namespace argosy::comm::mpi {

// How members send to each other; no other members of the world have their
// channel.
using MakeMessenger = std::function<std::unique_ptr<message::Messenger>(
    std::uint64_t channel, const Members& members)>;

// Makes "mpi" a backend of the world, and what "auto" takes between hosts.
void register_mpi_backend(World& world, MakeMessenger make_messenger);

// The next number of a world, from 1; nobody else gets it.
std::int64_t take_number(World& world);

} // namespace argosy::comm::mpi
