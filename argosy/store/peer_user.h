#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "argosy/store/socket.h"

namespace argosy::store {

// The user at the other end of a connection over loopback. nullopt: the other
// end is on another host, or has gone.
std::optional<uid_t> loopback_peer_user(const Socket& socket);

// The user of the socket with these two ends in a table of the kernel
// (/proc/net/tcp or tcp6), whose words the ends are: "0100007F:1F90".
std::optional<uid_t> user_in_table(
    std::string_view table, std::string_view own, std::string_view other);

} // namespace argosy::store
