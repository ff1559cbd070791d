#include <utility>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/net.h"
#include "argosy/common/wait_notice.h"
#include "argosy/launch/rendezvous.h"
#include "argosy/launch/reserved_ports.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/open_kv.h"
#include "argosy/store/socket.h"

namespace argosy::launch {

namespace {

using std::chrono::milliseconds;

std::string url_of(const RdzvOptions& options) {
  const bool etcd = options.backend == RdzvBackend::Etcd;
  const bool bare = options.endpoint.find('/') == std::string::npos;
  return str(
      etcd ? (options.https ? "etcds://" : "etcd://") : "tcp://",
      options.endpoint,
      etcd && bare ? "/argosy" : "");
}

// The store's place, if it may be on this machine: then this launcher serves
// it, unless another one of the job does.
class OwnPlace {
 public:
  OwnPlace(Endpoint endpoint, const store::Credentials& credentials)
      : endpoint_(std::move(endpoint)), credentials_(credentials) {}

  // Does nothing if the endpoint is another machine's. If the port is in use,
  // its user should be a launcher of the same job.
  void try_serve();

  const std::shared_ptr<store::KvServer>& server() const { return server_; }

  // For errors: why this machine does not serve; else empty.
  std::string refusal() const {
    return refusal_.empty() ? "" : str("; it is not served here: ", refusal_);
  }

 private:
  void warn_if_open(const std::string& host) const;

  const Endpoint endpoint_;
  const store::Credentials& credentials_;
  std::shared_ptr<store::KvServer> server_;
  std::string refusal_;
};

void OwnPlace::try_serve() {
  if (server_ != nullptr || !is_local_host(endpoint_.host)) {
    return;
  }
  const std::string host = store::listen_host(
      endpoint_.host, Deadline::after(std::chrono::seconds(10)));
  try {
    server_ = std::make_shared<store::KvServer>(
        Endpoint{host, endpoint_.port},
        store::ServerOptions{.credentials = credentials_});
    refusal_.clear();
    warn_if_open(host);
  } catch (const StoreError& error) {
    refusal_ = error.what();
  }
}

void OwnPlace::warn_if_open(const std::string& host) const {
  if (!credentials_.secret && !credentials_.tls.on() &&
      !host.starts_with("127.") && host != "localhost" && host != "::1") {
    log::warn(
        "[launch.rendezvous] the nodes share no secret: whoever reaches {} can "
        "join the job. Give all of them the same --secret-file",
        endpoint_.text());
  }
}

// Connects in slices, so that signals are handled while nobody answers. Who
// held this machine's port may leave meanwhile: a client that got it by chance,
// a launcher of an earlier job.
std::shared_ptr<store::Kv> connect(
    const std::string& url,
    milliseconds timeout,
    const store::Credentials& credentials,
    Interrupt& interrupt,
    OwnPlace* own) {
  const Deadline deadline = Deadline::after(timeout);
  WaitNotice notice;
  while (true) {
    if (own != nullptr) {
      own->try_serve();
    }
    const auto refusal = [&] { return own != nullptr ? own->refusal() : ""; };
    try {
      return store::open_kv(
          url, deadline.earlier(milliseconds(200)), credentials);
    } catch (const TimeoutError& error) {
      if (deadline.expired()) {
        throw TimeoutError(str_format(
            "[launch.rendezvous] --rdzv-endpoint {}: no answer within {}; {}{}",
            url,
            deadline.limit_text(),
            error.what(),
            refusal()));
      }
      if (const auto waited = notice.due()) {
        log::warn(
            "[launch.rendezvous] --rdzv-endpoint {}: no answer for {}, giving "
            "up after {}; {}{}",
            url,
            duration_text(*waited),
            deadline.limit_text(),
            error.what(),
            refusal());
      }
    }
    interrupt.pause(milliseconds(1));
  }
}

NodeRecord record_of_machine(
    const RunOptions& options,
    const std::string& address,
    ReservedPorts& ports) {
  const int num_processes = options.num_servers + options.num_workers;
  return {
      .node =
          {.host = host_name(),
           .address = address,
           .num_servers = options.num_servers,
           .num_workers = options.num_workers,
           .ports = ports.reserve(num_processes)},
      .requested_rank = options.node_rank,
      .min_nodes = options.min_nodes,
      .max_nodes = options.max_nodes,
      .master_port = ports.reserve_master(options.master_port.value_or(0))};
}

} // namespace

RendezvousStore open_rendezvous_store(
    const RdzvOptions& options,
    const std::string& local_addr,
    const store::Credentials& credentials,
    Interrupt& interrupt) {
  // Of several members of etcd, the first tells which interface leads there.
  const std::size_t end =
      std::min(options.endpoint.find_first_of("/,"), options.endpoint.size());
  const Endpoint endpoint = parse_endpoint(
      options.endpoint.substr(0, end), "[launch.rendezvous] --rdzv-endpoint");
  RendezvousStore store;
  store.url = url_of(options);
  // All nodes get the same endpoint; the node on that machine serves it,
  // whichever node starts first.
  OwnPlace own(endpoint, credentials);
  store.kv = connect(
      store.url,
      options.timeout,
      credentials,
      interrupt,
      options.backend == RdzvBackend::Tcp ? &own : nullptr);
  store.server = own.server();
  // Other nodes reach a server under the endpoint's name.
  store.address = !local_addr.empty() ? local_addr
      : store.server != nullptr       ? endpoint.host
                                      : address_towards(endpoint.host);
  return store;
}

std::unique_ptr<Membership> make_rendezvous(
    const RunOptions& options, RendezvousStore store, Interrupt& interrupt) {
  const auto ports = std::make_shared<ReservedPorts>();
  const std::string address = store.address;
  return make_rendezvous(
      options,
      std::move(store),
      RendezvousNode{
          .pause = [&interrupt](milliseconds time) { interrupt.pause(time); },
          .describe =
              [&options, address, ports] {
                return record_of_machine(options, address, *ports);
              },
          .tell = [](const std::string& text) { log::warn("{}", text); }});
}

} // namespace argosy::launch
