#pragma once

#include <memory>
#include <optional>

#include "argosy/store/secret.h"
#include "argosy/world/world.h"

// Not installed: users have no business with the secret.
namespace argosy {

// The secret of the job that a world belongs to; nullopt: it has none, as for
// thread ranks.
struct WorldSecret {
  std::optional<store::Secret> secret;
};

inline std::optional<store::Secret> secret_of(World& world) {
  return world
      .attached<WorldSecret>([] { return std::make_shared<WorldSecret>(); })
      ->secret;
}

} // namespace argosy
