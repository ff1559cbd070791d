#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "argosy/launch/interrupt.h"
#include "argosy/launch/membership.h"
#include "argosy/launch/node_record.h"
#include "argosy/launch/options.h"
#include "argosy/store/credentials.h"
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
    const store::Credentials& credentials,
    Interrupt& interrupt);

// What the rendezvous needs of the node that it runs on.
struct RendezvousNode {
  // Waits for a time. May throw, which ends the rendezvous.
  std::function<void(std::chrono::milliseconds)> pause;
  // Describes the node. Its ports stay reserved until the next call.
  std::function<NodeRecord()> describe;
  // Tells the user whom the node waits for; empty: it says nothing.
  std::function<void(const std::string&)> tell;
};

// A membership whose nodes find and watch each other through the store.
// `options` must outlive it.
//
// Each attempt fixes its list of nodes with one atomic write, and how it ended
// with another, so that all agree. A node that is silent for longer than
// keep_alive, or that reports a failure, ends the attempt everywhere. A node
// that cannot reach the store for as long ends its own workers, because the
// others go on without it; it joins the next attempt when it can.
std::unique_ptr<Membership> make_rendezvous(
    const RunOptions& options, RendezvousStore store, RendezvousNode node);

// On this machine; `interrupt` must outlive it.
std::unique_ptr<Membership> make_rendezvous(
    const RunOptions& options, RendezvousStore store, Interrupt& interrupt);

} // namespace argosy::launch
