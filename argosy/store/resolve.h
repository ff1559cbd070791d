#pragma once

#include <sys/socket.h>

#include <string>
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

// The addresses of an endpoint, in the order of preference. Retries until the
// deadline while the resolver says that the failure may pass. Throws StoreError
// that names the host.
std::vector<SocketAddress> resolve(const Endpoint& endpoint, Deadline deadline);

} // namespace argosy::store
