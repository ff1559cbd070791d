#pragma once

// The part of the backend "mpi" that needs no MPI header, so that libargosy.so
// links no MPI.

#include <cstdint>
#include <functional>
#include <memory>

#include "argosy/comm/backend/members.h"
#include "argosy/comm/message/messenger.h"

namespace argosy {
class World;
}

namespace argosy::comm::mpi {

// Makes the messenger of some members. No other members of the world have their
// channel.
using MakeMessenger = std::function<std::unique_ptr<message::Messenger>(
    std::uint64_t channel, const Members& members)>;

// Connects members over MPI; they agree on a channel through their store.
MakeNetwork make_network(World& world, MakeMessenger make_messenger);

// The backend "mpi" over such a network.
MakeBackend make_backend(MakeNetwork network);

// Returns 1, 2, ...: no two calls in a world get the same number.
std::int64_t take_number(World& world);

} // namespace argosy::comm::mpi
