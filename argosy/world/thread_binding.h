#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <optional>

#include "argosy/world/launch_info.h"

namespace c10d {
class Store;
}

namespace argosy {

class World;

// Thread-local state of a rank. Not installed; users call current_world().
struct ThreadBinding {
  // Set by spawn() in thread ranks: the rank's identity and store, instead of
  // the process's environment.
  std::optional<LaunchInfo> launch;
  c10::intrusive_ptr<c10d::Store> store;

  std::shared_ptr<World> world;

  ~ThreadBinding();
};

ThreadBinding& thread_binding();

// Binds a world to the calling thread (null: unbinds), and sets the thread's
// rank label for logs and errors.
void bind_world(std::shared_ptr<World> world);

} // namespace argosy
