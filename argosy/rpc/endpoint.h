#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/rpc/error.h"
#include "argosy/rpc/future.h"
#include "argosy/rpc/incoming_call.h"
#include "argosy/rpc/message.h"
#include "argosy/rpc/transport.h"
#include "argosy/store/credentials.h"

namespace argosy::rpc {

struct CallOptions {
  // When the caller gives up. It travels with the call: the callee sees what is
  // left.
  Deadline deadline = Deadline::after(std::chrono::seconds(500));

  // Sent again when a connection breaks; the callee runs it once all the same,
  // and answers with the result of that run. Without it, a call that was on its
  // way when the connection broke fails with PeerLost.
  bool exactly_once = false;
};

struct ServeOptions {
  // Runs on the thread that receives: for handlers that take microseconds and
  // never block, since all other calls wait. Else a thread of the pool runs it.
  bool inline_ = false;
};

// Checked before memory is taken.
struct Limits {
  std::size_t message_bytes = std::size_t{4} << 30; // of one message
  // Of all requests that are in memory here. When they are more, the endpoint
  // stops receiving until handlers have ended, so that callers have to wait.
  std::size_t request_bytes = std::size_t{8} << 30;
  // What a caller may have under way to one peer; call() waits for its turn.
  std::size_t calls_in_flight = 65536;
  std::size_t bytes_in_flight = std::size_t{8} << 30;
  // Results of exactly-once calls that their callers have not confirmed.
  std::size_t kept_result_bytes = std::size_t{1} << 30;
  std::size_t connections = 4096;
};

struct EndpointOptions {
  std::string name{}; // of this worker
  PeerId id = 0;      // its index in the list of workers

  // Peers must have the same.
  store::Credentials credentials{};

  // Where to listen for TCP: an address of this host. Empty: not at all, so
  // that only workers of this host can call. The port is any free one, or this.
  std::string tcp_host{};
  std::uint16_t tcp_port = 0;

  // The fastest way to use, if both sides can: Unix means no shared memory, Tcp
  // neither that nor Unix sockets.
  Transport transport = Transport::SharedMemory;

  std::size_t threads = 64; // of the pool, at most; it grows as needed

  // How long to try to reach a peer of another host before it counts as lost.
  std::chrono::milliseconds patience = std::chrono::seconds(10);

  Limits limits{};
};

struct PeerInfo {
  std::string name;
  std::string address; // Endpoint::address() of that worker
};

// One request of a fan-out.
struct Request {
  PeerId peer;
  std::string method;
  Message message;
};

// Counts since the endpoint exists.
struct EndpointCounts {
  std::uint64_t served = 0;        // calls given to handlers
  std::uint64_t repeated = 0;      // exactly-once calls that came again
  std::uint64_t resent = 0;        // that we sent again
  std::uint64_t connects = 0;      // connections that we opened
  std::uint64_t refused = 0;       // strangers, and messages beyond limits
  std::uint64_t kept_results = 0;  // of exactly-once calls, in memory now
  std::uint64_t request_bytes = 0; // of requests and answers, in memory now

  bool operator==(const EndpointCounts&) const = default;
};

// Calls functions of other workers, and serves theirs. One per worker; it has
// threads of its own and no state outside. All methods are thread-safe, and may
// be called from handlers.
class Endpoint {
 public:
  // Listens before it returns. Throws StoreError when it cannot listen there,
  // InvalidArgument for certificates that cannot be used.
  explicit Endpoint(EndpointOptions options);

  // Closes all connections; calls that are under way fail.
  ~Endpoint();

  // What peers need to reach this worker. Printable, one line.
  std::string address() const;

  // Handlers may be added at any time. Throws InvalidArgument if there is one
  // of that name.
  void serve(std::string method, Handler handler, ServeOptions options = {});

  // Who the others are, by PeerId; this worker among them. May be called again:
  // a peer with another address is a new one, and calls to the old one fail.
  void set_peers(std::vector<PeerInfo> peers);

  // Connects when first needed. Does not block, except until the limits
  // `calls_in_flight` and `bytes_in_flight` leave room. Failures come by the
  // future. Throws InvalidArgument for a peer that does not exist.
  Future<Message> call(
      PeerId peer,
      std::string_view method,
      Message message,
      const CallOptions& options = {});

  // call() and wait, faster: this thread receives the reply itself.
  Message call_sync(
      PeerId peer,
      std::string_view method,
      Message message,
      const CallOptions& options = {});

  // Many calls as one: the results in the order of the requests, when all have
  // ended. A failure is a result, and names its peer.
  Future<std::vector<Result<Message>>> call_all(
      std::vector<Request> requests, const CallOptions& options = {});

  // Refuses new calls of others, answers those that are under way (at most
  // until the deadline), and closes all connections. Idempotent. To be sure
  // that nobody needs this worker any more, agree with the others first.
  void shutdown(Deadline deadline);

  EndpointCounts counts() const;

  // For tests: breaks all connections as a network would.
  void break_connections();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

} // namespace argosy::rpc
