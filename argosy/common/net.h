#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace argosy {

// A host and a TCP port.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
  // "host:port"; IPv6 addresses are in brackets.
  std::string text() const;
};

// Parses "host:port", "[::1]:port" or, if `default_port` is not 0, "host".
// Throws InvalidArgument whose message starts with `what`, for example the name
// of a variable.
Endpoint parse_endpoint(
    std::string_view text, std::string_view what, int default_port = 0);

// This machine's host name.
std::string host_name();

// Whether a name or address refers to this machine.
bool is_local_host(const std::string& host);

// Returns the numeric address of the interface that routes to `peer`, under
// which `peer` can reach this host. Sends no packets. "127.0.0.1" if `peer`
// cannot be resolved.
std::string address_towards(const std::string& peer);

// Returns the address under which other hosts most likely reach this one: that
// of the first interface that is up and not loopback; else 127.0.0.1.
std::string own_address();

// Reserves a free TCP port: the system gives it to nobody else while this
// object is alive, but a program that binds it with SO_REUSEADDR, as c10d's
// store does, can listen on it.
class ReservedPort {
 public:
  // Any free port, or exactly `port`. Throws SystemError if it is in use.
  explicit ReservedPort(std::uint16_t port = 0);
  ~ReservedPort();
  ReservedPort(ReservedPort&& other) noexcept;
  ReservedPort& operator=(ReservedPort&&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

} // namespace argosy
