#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/backend/members.h"

namespace argosy {
class World;
}

namespace argosy::comm {

// Connects as the backend "auto" does: through shared memory if all members can
// map each other's, else through shared memory on each host and Gloo between
// them. All members must call it; they come to the same answer.
std::unique_ptr<Backend> connect_auto(const Members& members);

// Makes a backend known under a name, for groups of this world. All ranks that
// use it must register it first. Throws InvalidArgument for a name that is
// taken.
void register_backend(
    World& world, const std::string& name, MakeBackend make_backend);

// Sets the network that "auto" uses in this world, in place of Gloo. All ranks
// must set it, before they make groups.
void set_network(World& world, MakeNetwork make_network);

// The backends of a world: "auto", "inproc", "shm", "gloo", "c10d", and those
// that were registered.
std::vector<std::string> backend_names(World& world);

// Throws InvalidArgument when no backend has that name.
void check_backend(World& world, const std::string& name);

// The backend of that name for a group that meets under `group_key`. Members
// wait for each other no longer than Members::deadline says, and no longer
// than there is hope: they throw PeerLost when one has left the world or died,
// and InvalidArgument when ranks made the group of different lists.
MakeBackend find_backend(
    World& world, const std::string& name, const std::string& group_key);

// The keys of a group in the store of its world.
c10::intrusive_ptr<c10d::Store> group_store(
    const c10::intrusive_ptr<c10d::Store>& world, const std::string& group_key);

} // namespace argosy::comm
