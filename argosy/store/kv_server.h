#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "argosy/common/net.h"
#include "argosy/store/credentials.h"

namespace argosy::store {

// What a server bears. Everything is checked before memory is taken for it.
struct ServerLimits {
  // How long a client may take to prove that it belongs to the job, and how
  // many may be about to; fewer if that is more than a quarter of the process's
  // free descriptors. When one more comes, the oldest of them has to go.
  std::chrono::milliseconds greeting = std::chrono::seconds(10);
  std::size_t greeters = 256;

  std::size_t connections = 65536; // further ones are closed

  // How long a client may stop in the middle of a request or a reply. Between
  // requests, and in a wait, it may be silent.
  std::chrono::milliseconds stall = std::chrono::seconds(60);

  std::size_t table_bytes = std::size_t{1} << 30;  // of all keys and values
  std::size_t buffer_bytes = std::size_t{1} << 30; // of requests and replies
  std::size_t leases = 65536;
};

// How many connections a server has had, by their fate.
struct ServerCounts {
  std::uint64_t accepted = 0;
  std::uint64_t proven = 0;    // belong to the job
  std::uint64_t refused = 0;   // spoke another protocol, or had a wrong secret
  std::uint64_t late = 0;      // did not greet in time
  std::uint64_t evicted = 0;   // had to make way before they had greeted
  std::uint64_t stalled = 0;   // stopped in the middle of a message
  std::uint64_t too_large = 0; // announced or filled too much

  bool operator==(const ServerCounts&) const = default;
};

struct ServerOptions {
  // Clients must have the same.
  Credentials credentials{};
  ServerLimits limits{};
};

// A key-value server for TcpKv clients, run by one thread of this process. The
// keys live as long as the server.
//
// It survives whatever clients send. Before a client has proven that it knows
// the secret, it reads nothing of it but the greeting. What it closes for that
// reason it counts, and logs once.
class KvServer {
 public:
  // Listens before it returns. An empty host means all interfaces, port 0 any
  // free port. Throws StoreError, naming the address, when it cannot listen
  // there; InvalidArgument for certificates that cannot be used.
  explicit KvServer(
      const Endpoint& address, const ServerOptions& options = ServerOptions());

  // Stops at once and closes all connections.
  ~KvServer();

  std::uint16_t port() const;

  // Thread-safe.
  ServerCounts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::store
