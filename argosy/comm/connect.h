#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"

namespace c10d {
class Store;
}

namespace argosy {
class World;
}

namespace argosy::comm {

class Backend;

namespace message {
class Messenger;
}

// Some ranks that are about to connect, seen from one of them.
struct Members {
  std::string group; // its name in messages
  int rank = 0;      // among the members
  std::vector<int> global_ranks;
  c10::intrusive_ptr<c10d::Store> store; // theirs alone
  Deadline deadline;

  int size() const { return static_cast<int>(global_ranks.size()); }
};

using MakeBackend =
    std::function<std::unique_ptr<Backend>(const Members& members)>;

// How members on several hosts send to each other.
using MakeNetwork =
    std::function<std::unique_ptr<message::Messenger>(const Members& members)>;

// What "auto" stands for: shared memory where the members can really see each
// other's, else the network, which is Gloo's here. All members must call it;
// they come to the same answer.
std::unique_ptr<Backend> connect_auto(const Members& members);

// Makes a backend known under a name, for groups of this world. All ranks that
// are to use it must do so before.
void register_backend(
    World& world, const std::string& name, MakeBackend make_backend);

// The network that "auto" takes in this world, in place of Gloo's. All ranks
// must set it, before they make groups.
void set_network(World& world, MakeNetwork make_network);

// The backends of a world: "auto", "inproc", "shm", "gloo", "c10d", and those
// that were registered.
std::vector<std::string> backend_names(World& world);

// The way to connect by that name. Throws InvalidArgument when there is none.
MakeBackend find_backend(World& world, const std::string& name);

} // namespace argosy::comm
