#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "argosy/common/process_watch.h"
#include "argosy/rpc/address.h"
#include "argosy/rpc/hello.h"
#include "argosy/rpc/ring.h"
#include "argosy/rpc/socket_channel.h"
#include "argosy/store/credentials.h"

namespace argosy::rpc {

// A connection that is greeted and ready for frames.
struct Dialed {
  std::unique_ptr<Channel> channel;
  RingChannel* ring = nullptr; // the channel, if it is in shared memory
  std::shared_ptr<const ProcessWatch> process; // of the peer, on this host
  std::string instance;                        // of the peer's endpoint
  bool session_known = false;
};

// What a client needs to know of itself.
struct Dialer {
  Address own;
  store::Credentials credentials;
  store::TlsContext tls;
  int event_fd = -1;                 // of its loop
  std::atomic<bool> stopping{false}; // gives up at the next try
};

// Opens a connection and greets; blocks. Throws PeerLost when nobody listens
// there any more, TimeoutError, StoreError when the peer is not of this job,
// and InvalidArgument when there is no way to it.
Dialed dial(
    const Dialer& dialer, const Address& peer, Hello hello, Deadline deadline);

} // namespace argosy::rpc
