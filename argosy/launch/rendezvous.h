#pragma once

#include <memory>
#include <string>

#include "argosy/launch/interrupt.h"
#include "argosy/launch/membership.h"
#include "argosy/launch/options.h"
#include "argosy/store/kv.h"

namespace argosy::store {
class KvServer;
}

namespace argosy::launch {

// Where the nodes of a job meet.
struct MeetingPlace {
  std::string url;     // "tcp://node0:29400"
  std::string address; // of this node, for the others
  // Set when this process serves the store, and so has to leave last.
  std::shared_ptr<store::KvServer> server;
  std::shared_ptr<store::Kv> kv;
};

// Connects to the store that the options name; serves it when its address is
// this machine's and nobody else does. Throws StoreError, TimeoutError.
MeetingPlace open_meeting_place(
    const RdzvOptions& options,
    const std::string& local_addr,
    Interrupt& interrupt);

// A membership whose nodes find and watch each other through a key-value store.
// `options` and `interrupt` must outlive it.
//
// Each attempt closes its list of nodes by one atomic write, so all agree on
// it. A node that falls silent for the keep-alive time, or reports a failure,
// ends the attempt everywhere.
std::unique_ptr<Membership> make_rendezvous(
    const RunOptions& options, MeetingPlace place, Interrupt& interrupt);

} // namespace argosy::launch
