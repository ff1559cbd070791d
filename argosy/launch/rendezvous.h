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

// The key-value store where the nodes of a job meet.
struct RendezvousStore {
  std::string url;     // for example "tcp://node0:29400"
  std::string address; // under which other nodes reach this one
  // Set if this process serves the store; it must then leave last.
  std::shared_ptr<store::KvServer> server;
  std::shared_ptr<store::Kv> kv;
};

// Connects to the store that the options name; serves it if its address is this
// machine's and nobody else serves it. Blocks. Throws StoreError, TimeoutError,
// Interrupted.
RendezvousStore open_rendezvous_store(
    const RdzvOptions& options,
    const std::string& local_addr,
    Interrupt& interrupt);

// A membership whose nodes find and watch each other through the store.
// `options` and `interrupt` must outlive it.
//
// Each attempt fixes its list of nodes with one atomic write, so that all
// agree. A node that is silent for longer than keep_alive, or that reports a
// failure, ends the attempt everywhere.
std::unique_ptr<Membership> make_rendezvous(
    const RunOptions& options, RendezvousStore store, Interrupt& interrupt);

} // namespace argosy::launch
