#pragma once

#include <cstdint>
#include <memory>

#include "argosy/common/net.h"

namespace argosy::store {

// A key-value server for TcpKv clients, run by one thread of this process. The
// keys live as long as the server.
//
// Robust against misbehaving clients: it closes connections that send garbage,
// messages over 64 MiB or a wrong greeting, and does not serve a client until
// it has read its reply. There is no authentication: whoever can connect can
// read and write all keys.
class KvServer {
 public:
  // Listens on `address`: an empty host means all interfaces, port 0 any free
  // port. Throws StoreError, naming the address, also if it is in use.
  explicit KvServer(const Endpoint& address);

  // Stops at once and closes all connections.
  ~KvServer();

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::store
