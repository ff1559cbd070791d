#pragma once

#include <string>

#include "argosy/rpc/frame.h"
#include "argosy/rpc/incoming_call.h"

// What both sides say after the greeting (store/greeting.h): the client Hello,
// the server Welcome. Each is a frame. Over Unix sockets descriptors go with
// them: of the rings and of the client's eventfd; of the server's eventfd.
namespace argosy::rpc {

inline constexpr std::size_t kLongestHello = 4096;

struct Hello {
  PeerId id = -1;
  std::string name{};
  // Names the caller's run of exactly-once calls to this peer, beyond the life
  // of a connection.
  std::string session{};
  bool rings = false; // descriptors come with this

  bool operator==(const Hello&) const = default;
};

struct Welcome {
  bool known = false; // the session had a connection before

  bool operator==(const Welcome&) const = default;
};

std::string encode(const Hello& hello);
std::string encode(const Welcome& welcome);

// Throw InvalidArgument.
Hello decode_hello(const Frame& frame);
Welcome decode_welcome(const Frame& frame);

} // namespace argosy::rpc
