#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/launch/rendezvous.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/open_kv.h"

namespace argosy::launch {

namespace {

using std::chrono::milliseconds;

bool is_loopback_text(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

std::string url_of(const RdzvOptions& options) {
  const bool etcd = options.backend == RdzvBackend::Etcd;
  const bool bare = options.endpoint.find('/') == std::string::npos;
  return str(
      etcd ? "etcd://" : "tcp://",
      options.endpoint,
      etcd && bare ? "/argosy" : "");
}

// Returns null if the endpoint is another machine's or in use; in that case its
// user should be a launcher of the same job.
std::shared_ptr<store::KvServer> try_serve(const Endpoint& endpoint) {
  if (!is_local_host(endpoint.host)) {
    return nullptr;
  }
  // This machine's name may resolve to a loopback address here, so a name is
  // served on all interfaces.
  const bool loopback = is_loopback_text(endpoint.host);
  try {
    return std::make_shared<store::KvServer>(
        Endpoint{loopback ? endpoint.host : "", endpoint.port});
  } catch (const StoreError&) {
    return nullptr;
  }
}

// Connects in slices, so that signals are handled while nobody answers.
std::shared_ptr<store::Kv> connect(
    const std::string& url, milliseconds timeout, Interrupt& interrupt) {
  const Deadline deadline = Deadline::after(timeout);
  while (true) {
    try {
      return store::open_kv(url, deadline.earlier(milliseconds(200)));
    } catch (const TimeoutError&) {
      if (deadline.expired()) {
        throw TimeoutError(str_format(
            "[launch.rendezvous] --rdzv-endpoint {}: no answer within {}",
            url,
            deadline.limit_text()));
      }
    }
    interrupt.pause(milliseconds(1));
  }
}

} // namespace

RendezvousStore open_rendezvous_store(
    const RdzvOptions& options,
    const std::string& local_addr,
    Interrupt& interrupt) {
  const std::size_t path =
      std::min(options.endpoint.find('/'), options.endpoint.size());
  const Endpoint endpoint = parse_endpoint(
      options.endpoint.substr(0, path), "[launch.rendezvous] --rdzv-endpoint");
  RendezvousStore store;
  store.url = url_of(options);
  if (options.backend == RdzvBackend::Tcp) {
    // All nodes get the same endpoint; the node on that machine serves it,
    // whichever node starts first.
    store.server = try_serve(endpoint);
  }
  // Other nodes reach a server under the endpoint's name.
  store.address = !local_addr.empty() ? local_addr
      : store.server != nullptr       ? endpoint.host
                                      : address_towards(endpoint.host);
  store.kv = connect(store.url, options.timeout, interrupt);
  return store;
}

} // namespace argosy::launch
