#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "argosy/common/deadline.h"
#include "argosy/common/net.h"

namespace argosy::store {

// Owns a file descriptor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  int fd() const { return fd_; }

 private:
  int fd_;
};

// Connects, retrying until the deadline, since the server or its name may
// appear later. `expected` tells what should be there, for messages. The socket
// is non-blocking. Throws StoreError when the name does not resolve, else
// TimeoutError; both name the endpoint.
Socket connect_to(
    const Endpoint& server, Deadline deadline, std::string_view expected);

// Returns a non-blocking listening socket. An empty host means all interfaces,
// port 0 any free port. Throws StoreError, naming the address.
Socket listen_on(const Endpoint& address);

// The address on which a server that others reach as `host` should listen:
// `host` itself if it is an address of this machine's, else "" for all
// interfaces, as for a name that stands for a load balancer, or one that
// resolves to a loopback address on this machine alone. Throws StoreError when
// the name does not resolve.
std::string listen_host(const std::string& host, Deadline deadline);

// Returns the port that a socket is bound to.
std::uint16_t port_of(const Socket& socket);

// The address of the other end, "127.0.0.1:4711", for messages.
std::string peer_text(const Socket& socket);

// Waits until a descriptor is ready for POLLIN or POLLOUT. Returns false at the
// deadline.
bool await_ready(int fd, short events, const Deadline& deadline);

enum class IoResult { Done, Closed, TimedOut };

IoResult send_all(const Socket& socket, std::string_view bytes, Deadline);

// Appends `count` bytes to `bytes`; fewer if the result is not Done.
IoResult receive(
    const Socket& socket, std::size_t count, std::string& bytes, Deadline);

// Whether an idle connection is usable: the peer has neither closed it nor sent
// anything.
bool is_quiet(const Socket& socket);

// Disables Nagle's algorithm, and enables keep-alive so that a vanished peer is
// noticed within half a minute.
void set_tcp_options(const Socket& socket);

} // namespace argosy::store
