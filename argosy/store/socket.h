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

// Connects, again and again until the deadline: the server may start later, or
// its name appear later. `expected` says what should be there, for messages.
// The socket does not block. Throws StoreError when the name does not resolve,
// TimeoutError otherwise; both name the endpoint.
Socket connect_to(
    const Endpoint& server, Deadline deadline, std::string_view expected);

// A listening socket that does not block. An empty host means all interfaces,
// port 0 any free port. Throws StoreError that names the address.
Socket listen_on(const Endpoint& address);

// The port that a socket is bound to.
std::uint16_t port_of(const Socket& socket);

enum class IoResult { Done, Closed, TimedOut };

IoResult send_all(const Socket& socket, std::string_view bytes, Deadline);

// Appends `count` bytes to `bytes`; fewer unless Done.
IoResult receive(
    const Socket& socket, std::size_t count, std::string& bytes, Deadline);

// Whether an idle connection is still up: the peer has neither closed it nor
// sent anything.
bool is_quiet(const Socket& socket);

// Small messages leave at once, and a peer that vanished without a word is
// noticed within half a minute.
void tune(const Socket& socket);

} // namespace argosy::store
