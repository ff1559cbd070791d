#pragma once

#include <string>
#include <string_view>

#include "argosy/common/net.h"
#include "argosy/rpc/transport.h"

namespace argosy::rpc {

// Where a worker listens.
struct Address {
  std::string host{};      // see own_host()
  std::string unix_name{}; // of an abstract Unix socket; empty: none
  bool rings = false;      // it speaks over shared memory
  argosy::Endpoint tcp{};  // host empty: none

  bool operator==(const Address&) const = default;

  // One line: "host=... unix=... rings=1 tcp=...".
  std::string text() const;
};

// Throws InvalidArgument.
Address parse_address(std::string_view text);

// The same for all processes that can reach each other's abstract sockets: the
// boot of the host, and the network namespace.
std::string own_host();

// The fastest way between two workers. Throws InvalidArgument if there is none.
Transport choose_transport(const Address& own, const Address& peer);

} // namespace argosy::rpc
