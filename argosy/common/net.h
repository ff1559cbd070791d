#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace argosy {

// A host and a TCP port. IPv6 addresses print in brackets.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
  std::string text() const;
};

// "host:port", "[::1]:port", or "host" when `default_port` is not 0. Throws
// InvalidArgument that starts with `what`, such as a variable's name.
Endpoint parse_endpoint(
    std::string_view text, std::string_view what, int default_port = 0);

// This machine's name, as it calls itself.
std::string host_name();

// Whether `host`, a name or an address, is an address of this machine.
bool is_local_host(const std::string& host);

// The numeric address of the interface that faces `peer`: what peers should
// use to reach us. Sends nothing. "127.0.0.1" when `peer` cannot be resolved.
std::string address_towards(const std::string& peer);

// The address under which other hosts most likely reach this one: that of the
// first interface that is up and not the loopback; 127.0.0.1 when there is
// none.
std::string own_address();

// Holds a free TCP port: nobody is given it by the system while this lives,
// but a program that binds it with SO_REUSEADDR, as c10d's store does, can
// listen on it.
class ReservedPort {
 public:
  // Any free port, or exactly `port`. Throws SystemError when it is in use.
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
