#pragma once

#include <cstdint>
#include <memory>

#include "argosy/common/net.h"

namespace argosy::store {

// A key-value service for TcpKv clients, served by one thread of this process.
// The keys live as long as the server does.
//
// Clients are not trusted to behave: garbage, messages over 64 MiB and broken
// greetings end their connection; a client that does not read its reply is not
// served until it does. Whoever can connect can read and write all keys.
class KvServer {
 public:
  // Listens on `address`: an empty host means all interfaces, port 0 any free
  // port. Throws StoreError that names the address, for one that is in use too.
  explicit KvServer(const Endpoint& address);

  // Stops at once; waits of clients end with a broken connection.
  ~KvServer();

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::store
