#include "argosy/store/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/store/resolve.h"

namespace argosy::store {

namespace {

// All ranks of a job connect at the same time when it starts.
constexpr int kBacklog = 1024;

int option(int fd, int level, int name) {
  int value = 0;
  socklen_t size = sizeof(value);
  return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : errno;
}

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof(value));
}

int new_socket(const SocketAddress& address) {
  return ::socket(
      address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// Where nobody listens on a port from which the system also serves clients, a
// client may get that very port, and TCP then connects it with itself.
bool is_connected_to_itself(int fd) {
  SocketAddress own;
  SocketAddress peer;
  own.size = peer.size = sizeof(own.storage);
  auto* const own_name = reinterpret_cast<sockaddr*>(&own.storage);
  auto* const peer_name = reinterpret_cast<sockaddr*>(&peer.storage);
  return ::getsockname(fd, own_name, &own.size) == 0 &&
      ::getpeername(fd, peer_name, &peer.size) == 0 && own.size == peer.size &&
      std::memcmp(own_name, peer_name, own.size) == 0;
}

// Returns 0 or errno.
int try_connect(int fd, const SocketAddress& address, Deadline deadline) {
  int error = 0;
  if (::connect(fd, address.get(), address.size) != 0) {
    if (errno != EINPROGRESS) {
      return errno;
    }
    // The socket does not block: it becomes writable when connect() has ended,
    // and SO_ERROR tells how.
    error = await_ready(fd, POLLOUT, deadline)
        ? option(fd, SOL_SOCKET, SO_ERROR)
        : ETIMEDOUT;
  }
  return error == 0 && is_connected_to_itself(fd) ? ECONNREFUSED : error;
}

// Tries each address once. Returns nullopt and sets `failure` if none answers.
std::optional<Socket> try_all(
    const Endpoint& server, Deadline deadline, std::string& failure) {
  for (const SocketAddress& address : resolve(server, deadline)) {
    Socket socket(new_socket(address));
    // Limits each try, so that an unreachable address leaves time for the
    // others.
    const int error = try_connect(
        socket.fd(), address, deadline.earlier(std::chrono::seconds(5)));
    if (error == 0) {
      set_tcp_options(socket);
      return socket;
    }
    failure = std::strerror(error);
  }
  return std::nullopt;
}

SocketAddress any_ipv6(std::uint16_t port) {
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  any.sin6_port = htons(port);
  SocketAddress address;
  std::memcpy(&address.storage, &any, sizeof(any));
  address.size = sizeof(any);
  return address;
}

std::vector<SocketAddress> addresses_to_listen_on(const Endpoint& address) {
  const auto limit = Deadline::after(std::chrono::seconds(10));
  if (!address.host.empty()) {
    return resolve(address, limit);
  }
  // An IPv6 socket also serves IPv4, where the host has IPv6.
  auto all = resolve({"0.0.0.0", address.port}, limit);
  all.insert(all.begin(), any_ipv6(address.port));
  return all;
}

bool try_listen(int fd, const SocketAddress& address) {
  // Allows a restart while old connections are in TIME_WAIT, and a port that a
  // ReservedPort (common/net.cpp) holds for us.
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.get()->sa_family == AF_INET6) {
    // The default depends on the host (sysctl net.ipv6.bindv6only).
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  return fd >= 0 && ::bind(fd, address.get(), address.size) == 0 &&
      ::listen(fd, kBacklog) == 0;
}

bool is_loopback_host(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

std::string numeric_host(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  const int failed = ::getnameinfo(
      address.get(),
      address.size,
      host.data(),
      host.size(),
      nullptr,
      0,
      NI_NUMERICHOST);
  return failed == 0 ? host.data() : "";
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

} // namespace

bool await_ready(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    // poll() takes an int of milliseconds, which a long deadline would
    // overflow.
    const auto left = deadline.remaining(std::chrono::hours(1));
    const int count = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (count > 0) {
      return true;
    }
    if (deadline.expired()) {
      return false;
    }
  }
}

Socket::~Socket() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  // The destructor of `other` closes what we held.
  std::swap(fd_, other.fd_);
  return *this;
}

Socket connect_to(
    const Endpoint& server, Deadline deadline, std::string_view expected) {
  std::string failure;
  for (Backoff backoff;; backoff.pause(deadline)) {
    auto socket = try_all(server, deadline, failure);
    if (socket) {
      return std::move(*socket);
    }
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[store.connect] cannot reach {} within {}: {}, expected {}",
          server.text(),
          deadline.limit_text(),
          failure,
          expected));
    }
  }
}

Socket listen_on(const Endpoint& address) {
  for (const SocketAddress& candidate : addresses_to_listen_on(address)) {
    Socket socket(new_socket(candidate));
    if (try_listen(socket.fd(), candidate)) {
      return socket;
    }
  }
  const std::string name = address.host.empty()
      ? str("port ", address.port, " of all interfaces")
      : address.text();
  throw StoreError(with_errno(str("[store.server] cannot listen on ", name)));
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  // The port is at the same offset in IPv4 and IPv6 addresses.
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

std::string peer_text(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool known = ::getpeername(socket.fd(), generic, &size) == 0 &&
      ::getnameinfo(
          generic,
          size,
          host.data(),
          host.size(),
          port.data(),
          port.size(),
          NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  return known ? str(host.data(), ":", port.data()) : "somebody who has left";
}

std::string listen_host(const std::string& host, Deadline deadline) {
  if (host.empty() || is_loopback_host(host)) {
    return host;
  }
  for (const SocketAddress& address : resolve({host, 0}, deadline)) {
    const std::string numeric = numeric_host(address);
    if (!is_loopback_host(numeric) && is_local_host(numeric)) {
      return numeric;
    }
  }
  return "";
}

IoResult send_all(
    const Socket& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (!would_block()) {
      return IoResult::Closed;
    } else if (!await_ready(socket.fd(), POLLOUT, deadline)) {
      return IoResult::TimedOut;
    }
  }
  return IoResult::Done;
}

IoResult receive(
    const Socket& socket,
    std::size_t count,
    std::string& bytes,
    Deadline deadline) {
  std::array<char, 64 << 10> chunk;
  while (count > 0) {
    const ssize_t got =
        ::recv(socket.fd(), chunk.data(), std::min(count, chunk.size()), 0);
    if (got > 0) {
      bytes.append(chunk.data(), static_cast<std::size_t>(got));
      count -= static_cast<std::size_t>(got);
    } else if (got == 0 || !would_block()) {
      return IoResult::Closed;
    } else if (!await_ready(socket.fd(), POLLIN, deadline)) {
      return IoResult::TimedOut;
    }
  }
  return IoResult::Done;
}

// An idle connection has nothing to read. If it has, the server closed it, or
// it is out of step.
bool is_quiet(const Socket& socket) {
  pollfd entry{socket.fd(), POLLIN | POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) == 0;
}

// Requests are small and each waits for its reply, so Nagle's algorithm would
// only delay them. Keep-alive finds a host that vanished without closing its
// connections after 10 + 3 * 5 seconds; otherwise a wait would last until its
// deadline.
void set_tcp_options(const Socket& socket) {
  set_option(socket.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket.fd(), IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket.fd(), IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket.fd(), IPPROTO_TCP, TCP_KEEPCNT, 3);
}

} // namespace argosy::store
