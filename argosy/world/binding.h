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

// What a thread knows of itself. Not installed: users see current_world().
struct ThreadBinding {
  // Set by spawn() in thread ranks: who the thread is, and where it meets the
  // others. Takes the place of the process's environment.
  std::optional<LaunchInfo> launch;
  c10::intrusive_ptr<c10d::Store> store;

  std::shared_ptr<World> world;

  ~ThreadBinding();
};

ThreadBinding& thread_binding();

// Binds (or, with null, unbinds) and labels the thread for logs and errors.
void bind_world(std::shared_ptr<World> world);

} // namespace argosy
