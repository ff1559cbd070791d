#pragma once

#include <sys/socket.h>

#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/net.h"

namespace argosy::store {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

// Returns the addresses of an endpoint in order of preference. Retries
// temporary failures of the resolver until the deadline. Throws StoreError,
// naming the host.
std::vector<SocketAddress> resolve(const Endpoint& endpoint, Deadline deadline);

} // namespace argosy::store
