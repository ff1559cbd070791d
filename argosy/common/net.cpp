#include "argosy/common/net.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy {

namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    found = nullptr;
  }
  return {found, &::freeaddrinfo};
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int failed = ::getnameinfo(
      address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed != 0 ? "" : text.data();
}

socklen_t size_of(const sockaddr& address) {
  return address.sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                       : sizeof(sockaddr_in);
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

// Numeric addresses of the interfaces that are up, IPv4 first.
std::vector<std::string> interface_addresses() {
  ifaddrs* interfaces = nullptr;
  std::vector<std::string> addresses;
  if (::getifaddrs(&interfaces) != 0) {
    return addresses;
  }
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
      const sockaddr* own = i->ifa_addr;
      if (own != nullptr && own->sa_family == family &&
          (i->ifa_flags & IFF_UP) != 0) {
        addresses.push_back(numeric(own, size_of(*own)));
      }
    }
  }
  ::freeifaddrs(interfaces);
  return addresses;
}

} // namespace

std::string Endpoint::text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? str("[", host, "]:", port) : str(host, ":", port);
}

Endpoint parse_endpoint(
    std::string_view text, std::string_view what, int default_port) {
  // In [::1]:80, the port follows the first colon after the bracket.
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  const std::size_t colon = bracket == std::string_view::npos
      ? std::string_view::npos
      : text.find(':', bracket);
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  const auto port = colon == std::string_view::npos
      ? std::optional<long long>(default_port)
      : parse_int(text.substr(colon + 1));
  ARGOSY_CHECK(
      !host.empty() && port && *port > 0 && *port < 65536,
      "{}={} is not host:port with a port in [1, 65535]",
      what,
      text);
  return {std::string(host), static_cast<std::uint16_t>(*port)};
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    return "localhost";
  }
  return name.data();
}

bool is_local_host(const std::string& host) {
  const AddressList addresses = resolve(host);
  const std::vector<std::string> own = interface_addresses();
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    const std::string address = numeric(a->ai_addr, a->ai_addrlen);
    if (is_loopback(address) || std::ranges::find(own, address) != own.end()) {
      return true;
    }
  }
  return false;
}

std::string address_towards(const std::string& peer) {
  const AddressList addresses = resolve(peer);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    sockaddr_storage target{};
    std::memcpy(&target, a->ai_addr, a->ai_addrlen);
    // connect() on a datagram socket only selects the route; any port will do.
    reinterpret_cast<sockaddr_in*>(&target)->sin_port = htons(9);
    const int fd = ::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      continue;
    }
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    const bool routed =
        ::connect(fd, reinterpret_cast<sockaddr*>(&target), a->ai_addrlen) ==
            0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
    ::close(fd);
    if (routed) {
      return numeric(reinterpret_cast<sockaddr*>(&own), size);
    }
  }
  return "127.0.0.1";
}

// Only a guess, for launchers that do not say which peer to reach; with a peer,
// address_towards() follows the route.
std::string own_address() {
  for (const std::string& address : interface_addresses()) {
    // Link-local addresses are not reachable without a scope.
    const bool link_local =
        address.starts_with("169.254.") || address.starts_with("fe80:");
    if (!is_loopback(address) && !link_local) {
      return address;
    }
  }
  return "127.0.0.1";
}

ReservedPort::ReservedPort(std::uint16_t port) {
  // Bound with SO_REUSEADDR but not listening: Linux then allows another such
  // socket to bind and listen.
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (socket_ < 0 ||
      ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket_, generic, size) != 0 ||
      ::getsockname(socket_, generic, &size) != 0) {
    const std::string message =
        with_errno(str("[net] cannot reserve port ", port));
    ::close(socket_);
    throw SystemError(message);
  }
  port_ = ntohs(address.sin_port);
}

ReservedPort::~ReservedPort() {
  if (socket_ >= 0) {
    ::close(socket_);
  }
}

ReservedPort::ReservedPort(ReservedPort&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), port_(other.port_) {}

} // namespace argosy
