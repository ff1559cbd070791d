#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/common/environment.h"

namespace argosy::testing {

enum class PeerKind { Local };

std::vector<PeerKind> all_peers();
std::string peer_name(PeerKind kind);

// A place where files can be: a folder, or a server that is not ours.
class Peer {
 public:
  virtual ~Peer() = default;

  // The URL of a folder that nobody has used.
  virtual std::string new_folder() = 0;

  // What open() needs to reach it.
  virtual Environment environment() const { return {}; }

  // Partial files in a folder, seen past Argosy's own code where possible.
  virtual int num_leftovers(const std::string& path) = 0;
};

// The one that all tests of an executable share.
Peer& shared_peer(PeerKind kind);

} // namespace argosy::testing
