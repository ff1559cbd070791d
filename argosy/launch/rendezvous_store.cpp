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

// Returns null if the endpoint is another machine's or in use; in that case its
// user should be a launcher of the same job.
std::shared_ptr<store::KvServer> try_serve(
    const Endpoint& endpoint, const store::Credentials& credentials) {
  if (!is_local_host(endpoint.host)) {
    return nullptr;
  }
  const std::string host = store::listen_host(
      endpoint.host, Deadline::after(std::chrono::seconds(10)));
  std::shared_ptr<store::KvServer> server;
  try {
    server = std::make_shared<store::KvServer>(
        Endpoint{host, endpoint.port},
        store::ServerOptions{.credentials = credentials});
  } catch (const StoreError&) {
    return nullptr;
  }
  if (!credentials.secret && !credentials.tls.on() &&
      !host.starts_with("127.") && host != "localhost" && host != "::1") {
    log::warn(
        "[launch.rendezvous] the nodes share no secret: whoever reaches {} can "
        "join the job. Give all of them the same --secret-file",
        endpoint.text());
  }
  return server;
}

// Connects in slices, so that signals are handled while nobody answers.
std::shared_ptr<store::Kv> connect(
    const std::string& url,
    milliseconds timeout,
    const store::Credentials& credentials,
    Interrupt& interrupt) {
  const Deadline deadline = Deadline::after(timeout);
  WaitNotice notice;
  while (true) {
    try {
      return store::open_kv(
          url, deadline.earlier(milliseconds(200)), credentials);
    } catch (const TimeoutError& error) {
      if (deadline.expired()) {
        throw TimeoutError(str_format(
            "[launch.rendezvous] --rdzv-endpoint {}: no answer within {}; {}",
            url,
            deadline.limit_text(),
            error.what()));
      }
      if (const auto waited = notice.due()) {
        log::warn(
            "[launch.rendezvous] --rdzv-endpoint {}: no answer for {}, giving "
            "up after {}; {}",
            url,
            duration_text(*waited),
            deadline.limit_text(),
            error.what());
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
  if (options.backend == RdzvBackend::Tcp) {
    // All nodes get the same endpoint; the node on that machine serves it,
    // whichever node starts first.
    store.server = try_serve(endpoint, credentials);
  }
  // Other nodes reach a server under the endpoint's name.
  store.address = !local_addr.empty() ? local_addr
      : store.server != nullptr       ? endpoint.host
                                      : address_towards(endpoint.host);
  store.kv = connect(store.url, options.timeout, credentials, interrupt);
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
