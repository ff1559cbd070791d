#pragma once

#include <optional>
#include <string>

#include "argosy/store/secret.h"

namespace argosy::world {

// What rank 0 tells the others when nobody else told them where to meet. It
// travels through the process manager, MPI, or a file that only this user can
// read.
struct Invitation {
  std::string failure{};                 // why there is no store; else empty
  std::string address{};                 // of the store, "host:port"
  std::optional<store::Secret> secret{}; // nullopt: all ranks have one already
};

std::string to_text(const Invitation& invitation);

// Throws StoreError for a text that rank 0 cannot have sent.
Invitation parse_invitation(const std::string& text);

} // namespace argosy::world
