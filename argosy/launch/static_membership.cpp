#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/launch/membership.h"
#include "argosy/launch/reserved_ports.h"
#include "argosy/store/open_kv.h"

namespace argosy::launch {

namespace {

void add_process(
    std::vector<Node>& nodes, const Endpoint& endpoint, int Node::*count) {
  auto node = std::ranges::find_if(
      nodes, [&](const Node& known) { return known.address == endpoint.host; });
  if (node == nodes.end()) {
    node = nodes.insert(
        nodes.end(),
        {.host = endpoint.host, .address = endpoint.host, .num_workers = 0});
  }
  ++((*node).*count);
  node->ports.push_back(endpoint.port); // servers come before trainers
}

std::vector<std::string> texts(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> all;
  for (const Endpoint& endpoint : endpoints) {
    all.push_back(endpoint.text());
  }
  return all;
}

// Without a rendezvous, nobody assigns a node its place: it is the node whose
// address belongs to this machine.
int own_index(const std::vector<Node>& nodes, const RunOptions& options) {
  if (options.node_rank) {
    return std::min<int>(*options.node_rank, nodes.size() - 1);
  }
  std::vector<int> local;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string& address = nodes[i].address;
    const bool is_own = options.local_addr.empty()
        ? is_local_host(address)
        : address == options.local_addr;
    if (is_own) {
      local.push_back(static_cast<int>(i));
    }
  }
  ARGOSY_CHECK(
      local.size() == 1,
      "[launch.roles] --servers, --trainers: {} of their {} hosts are this "
      "machine, expected 1; --local-addr can tell which",
      local.size(),
      nodes.size());
  return local[0];
}

// Nobody polls the store of a job without a rendezvous for anything else.
constexpr std::chrono::seconds kLookEvery(1);
constexpr std::chrono::seconds kOpenLimit(2);
constexpr std::chrono::seconds kLeaseTime(60);

// Notices of hangs in the store where the workers meet.
struct StoreOfNotices {
  std::shared_ptr<store::Kv> kv;
  std::unique_ptr<store::Lease> lease;
  StoreHangShare share;
};

// Null if the store does not answer: a job must not fail because of a notice.
std::unique_ptr<StoreOfNotices> shared_in(
    const std::string& url,
    const store::Credentials& credentials,
    const NodeAssignment& assignment) {
  try {
    const Deadline deadline = Deadline::after(kOpenLimit);
    const auto kv = store::open_kv(url, deadline, credentials);
    auto lease = kv->grant(kLeaseTime, deadline);
    const std::string base = str("argosy/", assignment.run_id, "/hang/");
    HangRoom room{
        .kv = *kv,
        .asks = base + "asks",
        .answers = base + "answers/",
        .node = assignment.node_rank,
        .num_nodes = assignment.num_nodes(),
        .lease = lease.get(),
        .look_every = kLookEvery};
    auto shared = std::make_unique<StoreOfNotices>(
        StoreOfNotices{kv, std::move(lease), StoreHangShare(std::move(room))});
    shared->share.last_ask(true); // of earlier jobs
    return shared;
  } catch (const Error& error) {
    log::warn("[launch.hang] other nodes cannot be asked: ", error.what());
    return nullptr;
  }
}

class StaticMembership : public Membership {
 public:
  StaticMembership(
      const RunOptions& options,
      std::string store_url,
      const store::Credentials& credentials)
      : options_(options),
        store_url_(std::move(store_url)),
        credentials_(credentials) {}

  NodeAssignment join() override {
    NodeAssignment assignment = options_.servers.empty() ? counted() : listed();
    assignment.run_id = options_.rdzv.run_id;
    assignment.attempt = attempt_++;
    if (assignment.num_nodes() > 1 && is_etcd()) {
      share_ = shared_in(store_url_, credentials_, assignment);
    }
    return assignment;
  }

  JobWatch* watch() override { return nullptr; }
  HangShare* hang_share() override { return share_ ? &share_->share : nullptr; }
  void report(const Failure&) override {}
  std::optional<Failure> root_cause() override { return std::nullopt; }
  void leave() override { share_.reset(); }

 private:
  bool is_etcd() const {
    return store_url_.starts_with("etcd://") ||
        store_url_.starts_with("etcds://");
  }

  // Assumes that every node starts as many processes as this one.
  NodeAssignment counted() {
    NodeAssignment assignment;
    assignment.node_rank = options_.node_rank.value_or(0);
    Node node{
        .host = host_name(),
        .num_servers = options_.num_servers,
        .num_workers = options_.num_workers};
    // Ports stay empty on several nodes: no node can know which ports are free
    // on another.
    assignment.nodes.assign(options_.max_nodes, node);
    if (options_.max_nodes == 1) {
      Node& own = assignment.nodes[0];
      own.address = options_.local_addr.empty() ? options_.master_addr
                                                : options_.local_addr;
      own.ports = ports_.reserve(own.num_servers + own.num_workers);
    }
    ARGOSY_CHECK(
        options_.max_nodes == 1 || options_.num_servers == 0,
        "[launch.roles] --server-num on {} nodes takes a rendezvous "
        "(--rdzv-endpoint), or --servers",
        options_.max_nodes);
    assignment.master = master(assignment.node_rank, options_.max_nodes);
    return assignment;
  }

  NodeAssignment listed() {
    NodeAssignment assignment;
    assignment.nodes = listed_nodes(options_.servers, options_.trainers);
    assignment.node_rank = own_index(assignment.nodes, options_);
    assignment.master = master(assignment.node_rank, assignment.num_nodes());
    if (options_.master_addr == "127.0.0.1") {
      assignment.master.host = options_.trainers[0].host;
    }
    return assignment;
  }

  Endpoint master(int node_rank, int num_nodes) {
    const auto given = options_.master_port;
    // Several nodes cannot agree on a free port without a store, so they use
    // torchrun's default port. One node takes any free port.
    const std::uint16_t fixed = given.value_or(num_nodes > 1 ? 29500 : 0);
    // Node 0 reserves the port; here another program may use the same number.
    if (node_rank > 0) {
      return {options_.master_addr, fixed};
    }
    return {options_.master_addr, ports_.reserve_master(fixed)};
  }

  const RunOptions options_;
  const std::string store_url_;
  const store::Credentials credentials_;
  std::unique_ptr<StoreOfNotices> share_; // null: other nodes cannot be asked
  int attempt_ = 0;
  ReservedPorts ports_;
};

} // namespace

std::vector<Node> listed_nodes(
    const std::vector<Endpoint>& servers,
    const std::vector<Endpoint>& trainers) {
  NodeAssignment assignment;
  for (const Endpoint& server : servers) {
    add_process(assignment.nodes, server, &Node::num_servers);
  }
  for (const Endpoint& trainer : trainers) {
    add_process(assignment.nodes, trainer, &Node::num_workers);
  }
  ARGOSY_CHECK(
      assignment.server_endpoints() == texts(servers) &&
          assignment.worker_endpoints() == texts(trainers),
      "[launch.roles] --servers {} --trainers {}: the endpoints of a host must "
      "be adjacent, and hosts in the same order",
      join(texts(servers), ","),
      join(texts(trainers), ","));
  return assignment.nodes;
}

std::unique_ptr<Membership> make_static_membership(
    const RunOptions& options,
    const std::string& store_url,
    const store::Credentials& credentials) {
  return std::make_unique<StaticMembership>(options, store_url, credentials);
}

} // namespace argosy::launch
